//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/cmd/quark-mon/watch"
)

// The test's binary is both commands, by the name under which it is called.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "quark-mon":
		watch.Main(nil)
	case "quark-export":
		main()
	default:
		os.Exit(m.Run())
	}
}

const recording = "../../engine/enginetest/testdata/ebpf-6.18.trace"

// installed returns a directory with both commands.
func installed(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"quark-mon", "quark-export"} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if err := link(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// link links or copies a program.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// begin starts a command whose output nobody reads, and returns lines of its standard error up to
// the first that matches.
func begin(t *testing.T, cmd *exec.Cmd, until string) (lines *bufio.Reader, found []string) {
	t.Helper()
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		guard.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines = bufio.NewReader(errs)
	for all := ""; ; {
		line, err := lines.ReadString('\n')
		all += line
		if err != nil {
			t.Fatalf("no line %s: %v\n%s", until, err, all)
		}
		if found = regexp.MustCompile(until).FindStringSubmatch(line); found != nil {
			return lines, found
		}
	}
}

// quark-mon becomes quark-export, which serves metrics until a signal, also from an empty root
// directory.
func TestMetrics(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exec.Command(filepath.Join(installed(t), "quark-mon"), "-c", "-D", "-q", "--hold-time", "10ms", "--metrics", "127.0.0.1:0")
	lines, found := begin(t, cmd, `^quark-mon: metrics at (http://.*/metrics)\n`)
	want := regexp.MustCompile(`(?m)^quark_events_total\{kind="exit",scope="process",status="success"\} [1-9]`)
	resident := regexp.MustCompile(`(?m)^process_resident_memory_bytes [1-9]`)
	var text []byte
	for begin := time.Now(); !want.Match(text); {
		r, err := http.Get(found[1])
		if err != nil {
			t.Fatal(err)
		}
		if text, err = io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("no exit is counted within 30 s:\n%s", text)
		}
		exec.Command("true").Run()
	}
	if !resident.Match(text) {
		t.Errorf("resident memory is not known:\n%s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "insertions") {
		t.Errorf("the end by a signal: %v\n%s", err, rest)
	}
}

// quark-mon becomes quark-export, which sends what happens to a target that answers at first with
// an error, and says at the end how much it was.
func TestOTLP(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	var requests, size atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		size.Add(n)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer s.Close()
	cmd := exec.Command(filepath.Join(installed(t), "quark-mon"), "-c", "-D", "-M", "--hold-time", "10ms", "--otlp", s.URL)
	lines, _ := begin(t, cmd, `^quark-mon: OpenTelemetry log records to `+s.URL+`/v1/logs\n`)
	for size.Load() == 0 {
		exec.Command("true").Run() // begin has a deadline
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, rest)
	}
	m := regexp.MustCompile(`(?m)^otlp: (\d+) events, (\d+) delivered$`).FindSubmatch(rest)
	if m == nil || string(m[1]) != string(m[2]) || !strings.Contains(string(rest), "quark-mon: otlp: the target is not ready, trying again: status 503\nquark-mon: otlp: works again\n") {
		t.Errorf("at the end:\n%s", rest)
	}
}

// What can't be exported is said before anything is printed.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := installed(t)
	for _, c := range []struct{ args, want string }{
		{"--metrics " + l.Addr().String(), "address already in use: another program has the port, choose another one"},
		{"--metrics nothing", "--metrics nothing: serve metrics: listen tcp: address nothing: missing port in address"},
		{"--otlp localhost:4318", `--otlp localhost:4318: "localhost:4318" is no URL of a receiver`},
		{"--otlp http://localhost:4317", "port 4317 is for OTLP by gRPC"},
		{"--metrics 192.0.2.1:1", "assign requested address"},
		{"--metrics 127.0.0.1:99999", "invalid port"},
		{"--otlp http://localhost:99999", "there is no port 99999"},
		{"OTEL_EXPORTER_OTLP_HEADERS=a,b=secret --otlp http://localhost:1", "OTEL_EXPORTER_OTLP_HEADERS is no list of NAME=VALUE"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION=zip --otlp http://localhost:1", "unknown compression: zip"},
	} {
		args := strings.Fields(c.args)
		env := os.Environ()
		if strings.HasPrefix(args[0], "OTEL_") {
			env, args = append(env, args[0]), args[1:]
		}
		cmd := exec.Command(filepath.Join(dir, "quark-mon"), append(args, "-R", recording)...)
		cmd.Env = env
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err == nil || len(out) > 0 || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "secret") {
			t.Errorf("%s: error %v, output %.100q, errors %q, want %q", c.args, err, out, errs.String(), c.want)
		}
	}
}

// The help has the name of the command.
func TestHelp(t *testing.T) {
	dir := installed(t)
	for _, name := range []string{"quark-mon", "quark-export"} {
		out, err := exec.Command(filepath.Join(dir, name), "-h").Output()
		if err != nil || !strings.HasPrefix(string(out), "usage: "+name+" [tree") || !strings.Contains(string(out), "\n       "+name+" completion") {
			t.Errorf("%s -h: %v: %.300s", name, err, out)
		}
	}
}

// Events that a target has not got make the exit status 3, with a line that says how many. The
// target is a port at which nobody listens.
func TestStatusOfDropped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cmd := exec.Command(filepath.Join(installed(t), "quark-mon"), "-R", recording, "-q", "--otlp", "http://"+l.Addr().String())
	out, err := cmd.CombinedOutput()
	line := regexp.MustCompile(`(?m)^quark-mon: ([1-9]\d*) of (\d+) events were not delivered to their targets: the lines above say why$`)
	if m := line.FindSubmatch(out); m == nil || string(m[1]) != string(m[2]) || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("error %v: %s", err, out)
	}
}

// Without quark-export beside it and in PATH quark-mon says what to do.
func TestMissing(t *testing.T) {
	dir := installed(t)
	if err := os.Remove(filepath.Join(dir, "quark-export")); err != nil {
		t.Fatal(err)
	}
	mon := filepath.Join(dir, "quark-mon")
	cmd := exec.Command(mon, "--metrics", "127.0.0.1:0", "-R", recording)
	cmd.Env = append(os.Environ(), "PATH=/nonexistent")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "need quark-export, which is neither beside") || !strings.Contains(string(out), "go install") {
		t.Errorf("error %v: %s", err, out)
	}
	elsewhere := installed(t)
	cmd = exec.Command(mon, "-q", "--metrics", "127.0.0.1:0", "-R", recording)
	cmd.Env = append(os.Environ(), "PATH="+elsewhere)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "metrics at http://") {
		t.Errorf("in PATH: error %v: %s", err, out)
	}
}
