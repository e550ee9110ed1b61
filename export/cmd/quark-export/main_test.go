//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// The test's binary is also the command.
func TestMain(m *testing.M) {
	if os.Getenv("QUARK_EXPORT_RUN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const recording = "../../../engine/enginetest/testdata/ebpf-6.18.trace"

// exporter returns the command with arguments. Environment variables may precede the arguments.
func exporter(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "QUARK_EXPORT_RUN=1")
	for len(args) > 0 && strings.HasPrefix(args[0], "OTEL_") {
		env, args = append(env, args[0]), args[1:]
	}
	cmd := exec.Command(self, args...)
	cmd.Env = env
	return cmd
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

// Metrics are served until a signal.
func TestMetrics(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	cmd := exporter(t, "-c", "--hold-time", "10ms", "--metrics", "127.0.0.1:0")
	lines, found := begin(t, cmd, `^quark-export: metrics at (http://.*/metrics)\n`)
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
			t.Fatalf("no exit was counted within 30 s:\n%s", text)
		}
		exec.Command("true").Run()
	}
	if !resident.Match(text) {
		t.Errorf("resident memory is unknown:\n%s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit after a signal: got error %v\n%s", err, rest)
	}
}

// Events are sent to a target that first answers with an error. At the end the numbers of events
// are printed.
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
	cmd := exporter(t, "-c", "--hold-time", "10ms", "--otlp", s.URL)
	lines, _ := begin(t, cmd, `^quark-export: OpenTelemetry log records to `+s.URL+`/v1/logs\n`)
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
	if m == nil || string(m[1]) != string(m[2]) || !strings.Contains(string(rest), "quark-export: otlp: the target is not ready, retrying: status 503\nquark-export: otlp: works again\n") {
		t.Errorf("got output at the end:\n%s", rest)
	}
}

// Invalid options are reported before anything is printed.
func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct{ args, want string }{
		{"--metrics " + l.Addr().String(), "address already in use: another program uses the port, choose another port"},
		{"--metrics nothing", "--metrics nothing: serve metrics: listen tcp: address nothing: missing port in address"},
		{"--otlp localhost:4318", `--otlp localhost:4318: "localhost:4318": want the URL of a receiver`},
		{"--otlp http://localhost:4317", "port 4317 is for OTLP by gRPC"},
		{"", "nothing to export to: give --metrics ADDRESS, --otlp URL or --ecs"},
		{"--ecs --names", "unknown flag: --names (see quark-export replay -h)"},
		{"--metrics 127.0.0.1:0 -o file", "--output and --hash need --ecs"},
		{"--ecs -o no/directory", "--output: open no/directory: no such file"},
		{"--ecs --events exec", "unknown flag: --events"},
		{"--ecs extra", `unexpected operand "extra"`},
		{"--metrics 192.0.2.1:1", "assign requested address"},
		{"--metrics 127.0.0.1:99999", "invalid port"},
		{"--otlp http://localhost:99999", "invalid port 99999"},
		{"OTEL_EXPORTER_OTLP_HEADERS=a,b=secret --otlp http://localhost:1", "OTEL_EXPORTER_OTLP_HEADERS: want a comma-separated list of NAME=VALUE"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION=zip --otlp http://localhost:1", "unknown compression: zip"},
	} {
		cmd := exporter(t, append(strings.Fields(c.args), "replay", recording)...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err == nil || len(out) > 0 || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "secret") {
			t.Errorf("%s: error %v, output %.100q, errors %q, want %q", c.args, err, out, errs.String(), c.want)
		}
	}
}

// Documents of a recording are those of package ecs, on standard output or appended to a file.
func TestECS(t *testing.T) {
	printed, err := exporter(t, "replay", "--ecs", recording).Output()
	if err != nil || !regexp.MustCompile(`(?m)^{"@timestamp":".*"action":"process-forked-executed-exited","outcome":"failure",.*"exit_signal":"SIGKILL"`).Match(printed) {
		t.Fatalf("%v: %s", err, printed)
	}
	file := filepath.Join(t.TempDir(), "documents")
	for range 2 {
		if out, err := exporter(t, "replay", "--ecs", "-o", file, recording).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil || string(written) != string(printed)+string(printed) {
		t.Errorf("got %d bytes in the file, want %d as printed; error %v", len(written), len(printed), err)
	}
	filtered, err := exporter(t, "replay", "--ecs", "-s", "--filter", "exit and exit_signal == SIGKILL", recording).Output()
	if err != nil || strings.Count(string(filtered), "\n") != 1 {
		t.Errorf("filtered: got error %v: %s", err, filtered)
	}
}

// If events were not delivered, the exit status is 3, and a line reports their number. The target
// is a port without a listener.
func TestStatusOfDropped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cmd := exporter(t, "replay", recording, "--otlp", "http://"+l.Addr().String())
	out, err := cmd.CombinedOutput()
	line := regexp.MustCompile(`(?m)^quark-export: ([1-9]\d*) of (\d+) events were not delivered to their targets: the lines above say why$`)
	if m := line.FindSubmatch(out); m == nil || string(m[1]) != string(m[2]) || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("got error %v: %s", err, out)
	}
}

// The manual documents exactly the options of the help, except those that quark-mon(8) documents.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/quark-export.8")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{"help": true, "version": true}
	for _, m := range regexp.MustCompile(`(?m)^\.It Fl (?:\w , )?-([a-z-]+)`).FindAllStringSubmatch(string(manual), -1) {
		documented[m[1]] = true
	}
	shared, o := new(cobra.Command), new(options)
	for _, define := range []func(*cobra.Command){o.Backend, o.Events, o.Filter, o.Joining} {
		define(shared)
	}
	shown := make(map[string]bool)
	for _, verb := range [][]string{{"-h"}, {"replay", "-h"}} {
		var help bytes.Buffer
		if err := run(verb, &help, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`).FindAllStringSubmatch(help.String(), -1) {
			if shared.Flags().Lookup(m[1]) == nil {
				shown[m[1]] = true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(documented))); diff != "" {
		t.Errorf("the options of quark-export -h, not of quark-export(8) (-), and the reverse (+):\n%s", diff)
	}
}
