package otlp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/internal/retry"
)

// theCollector is the program of testdata/collector, which make test-exporters builds.
type theCollector struct {
	t            *testing.T
	program, dir string
	address      string
	cmd          *exec.Cmd
}

func (c *theCollector) start() {
	config := fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: '%s'}}}}
exporters: {lines: {path: '%s'}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {logs: {receivers: [otlp], exporters: [lines]}}
`, c.address, filepath.Join(c.dir, "lines"))
	file := filepath.Join(c.dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		c.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(c.program, "--config", "file:"+file)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// ready waits until the collector accepts connections.
func (c *theCollector) ready() {
	for range retry.For(time.Minute) {
		if conn, err := net.Dial("tcp", c.address); err == nil {
			conn.Close()
			return
		}
	}
	text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
	c.t.Fatalf("the collector is not ready within a minute:\n%s", text)
}

func (c *theCollector) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// names returns the number of different written records for each name of event.
func (c *theCollector) names() map[string]uint64 {
	text, err := os.ReadFile(filepath.Join(c.dir, "lines"))
	if err != nil {
		c.t.Fatal(err)
	}
	type record struct {
		EventName  string
		Attributes []struct {
			Key   string
			Value struct{ StringValue string }
		}
	}
	count, seen := make(map[string]uint64), make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m struct {
			ResourceLogs []struct {
				ScopeLogs []struct{ LogRecords []record }
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			c.t.Fatal(err)
		}
		for _, resource := range m.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				for _, r := range scope.LogRecords {
					id := ""
					for _, a := range r.Attributes {
						if a.Key == "log.record.uid" {
							id = a.Value.StringValue
						}
					}
					if id == "" || !seen[id] {
						count[r.EventName]++
					}
					seen[id] = true
				}
			}
		}
	}
	return count
}

// If a real collector is killed and restarted, each event is received or counted as dropped.
func TestKilledCollector(t *testing.T) {
	program := os.Getenv("QUARK_COLLECTOR")
	if program == "" {
		t.Skip("make test-exporters builds an OpenTelemetry Collector for it, which takes minutes the first time")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	c := &theCollector{t: t, program: program, dir: t.TempDir(), address: l.Addr().String()}
	l.Close()
	c.start()
	t.Cleanup(func() { c.kill() })
	c.ready()
	o := quick("http://" + c.address)
	o.Length, o.Grace, o.RetryMax = 5000, time.Minute, 200*time.Millisecond
	const events = 60000
	e := flood(t, o, events, func(i int, e *otlp.Exporter) {
		switch i {
		case 5, 13:
			c.kill()
		case 10, 18:
			c.start()
		}
		time.Sleep(100 * time.Millisecond)
		if i == 19 {
			drained(t, e) // so that what follows has room, and tells of what had none
		}
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	n, came := e.Counts(), c.names()
	checkBalance(t, n, events)
	t.Logf("exported %d: received %d, dropped %+v, dropped as reported %d", events, came["quark.process"], n.Dropped, came["quark.events.dropped"])
	if came["quark.process"] != n.Delivered || came["quark.process"]+n.Lost() != events || n.Dropped["queue_full"] == 0 || came["quark.events.dropped"] == 0 {
		t.Errorf("got received %v, counts %+v", came, n)
	}
}
