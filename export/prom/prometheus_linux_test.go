package prom_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/retry"
)

// prometheus runs Debian's Prometheus in a directory of the test, and returns its address. It
// scrapes a target five times a second.
func prometheus(t *testing.T, target string) (base string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs prometheus: make test-exporters installs it")
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n- job_name: quark\n  static_configs: [{targets: ['%s']}]\n", target)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes at the end of the thread that started it
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		guard := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		guard.Stop()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("prometheus:\n%s", text)
		}
	})
	return "http://" + address
}

type answer struct {
	Status, Error string
	Data          struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

func query(base, expression string) (a answer, err error) {
	r, err := http.Get(base + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	return a, json.NewDecoder(r.Body).Decode(&a)
}

// Debian's Prometheus scrapes the server, stores the values, and accepts every expression of the
// dashboard.
func TestPrometheus(t *testing.T) {
	s, _ := served(t)
	base := prometheus(t, s.Addr().String())
	sample := regexp.MustCompile(`^(\w+(?:\{.*\})?) (\d+)$`)
	await := func(metric, value string) {
		t.Helper()
		var a answer
		var err error
		for range retry.For(time.Minute) {
			a, err = query(base, metric)
			if err == nil && len(a.Data.Result) == 1 && a.Data.Result[0].Value[1] == value {
				return
			}
		}
		t.Errorf("%s is not %s: error %v, got %+v", metric, value, err, a)
	}
	await(`up{job="quark"}`, "1")
	for _, line := range shown {
		m := sample.FindStringSubmatch(line)
		await(m[1], m[2])
	}
	for _, expression := range expressions(t) {
		// Grafana replaces this variable by an interval.
		a, err := query(base, strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*").Replace(expression))
		if err != nil || a.Status != "success" {
			t.Errorf("%s: %v, %s", expression, err, a.Error)
		}
	}
}

// promtool, of the same package, finds nothing wrong with the names and texts of the metrics.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool: make test-exporters installs it")
	}
	s, _ := served(t)
	text, _ := scrape(t, s)
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// expressions returns the expressions of the dashboard's panels.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no expression", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// The dashboard shows all metrics, and only existing ones.
func TestDashboard(t *testing.T) {
	s, _ := served(t)
	text, _ := scrape(t, s)
	exposed := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)`).FindAllStringSubmatch(text, -1) {
		if exposed[m[1]] = true; m[2] == "histogram" {
			delete(exposed, m[1])
			exposed[m[1]+"_bucket"] = true
		}
	}
	all := expressions(t)
	used := make(map[string]bool)
	for _, e := range all {
		for _, name := range regexp.MustCompile(`\b(?:quark|process)_\w+`).FindAllString(e, -1) {
			if used[name] = true; !exposed[name] {
				t.Errorf("%s: metric %s does not exist", e, name)
			}
		}
	}
	for name := range exposed {
		if !used[name] && strings.HasPrefix(name, "quark_") {
			t.Errorf("no panel shows %s", name)
		}
	}
	if len(all) < 10 {
		t.Errorf("got %d expressions", len(all))
	}
}
