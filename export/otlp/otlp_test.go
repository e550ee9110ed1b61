package otlp_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/internal/golden"
)

// quick returns options with short pauses for tests.
func quick(url string) otlp.Options {
	return otlp.Options{URL: url, Batch: 50, Delay: 5 * time.Millisecond, RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond,
		Grace: 10 * time.Second, Timeout: 5 * time.Second}
}

// each calls f with the processes of the start and the events of a source.
func each(t testing.TB, source quark.Source, o quark.Options, f func(q *quark.Queue) func(*quark.Event)) {
	t.Helper()
	q, err := quark.New(source, o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	export := f(q)
	for p := range q.Processes() {
		export(&quark.Event{Process: p, TID: p.PID, Time: p.AsOf(), Wall: q.Clock().At(p.AsOf())})
	}
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		export(ev)
	}
}

// sent exports all events of a source to a receiver, and returns the receiver.
func sent(t *testing.T, source quark.Source, o quark.Options) *receiver {
	t.Helper()
	r := newReceiver(t)
	var e *otlp.Exporter
	each(t, source, o, func(q *quark.Queue) func(*quark.Event) {
		var err error
		if e, err = otlp.New(q, quick(r.url())); err != nil {
			t.Fatal(err)
		}
		return e.Export
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := e.Counts(); n.Taken != n.Delivered || n.Taken != uint64(len(r.got())) || n.Queued != 0 || n.Taken == 0 {
		t.Fatalf("received %d records, counts %+v", len(r.got()), n)
	}
	return r
}

// The records of a short process, a process of a container, a failed exec, invalid UTF-8, lost
// events, and an exit by a signal.
func TestRecords(t *testing.T) {
	m := enginetest.NewMachine()
	shell := m.Running("/bin/bash", "-l")
	shell.SetUID(1000)
	m.Sleep(2 * time.Second)
	shell.Fork().Exec("/usr/bin/id", "-u").Exit(3)
	shell.Fork().ExecFails("/usr/bin/no", 2).Exit(127)
	child := shell.Fork()
	child.State.Cgroup = []byte("/system.slice/docker-" + strings.Repeat("ab", 32) + ".scope")
	child.Exec("/bin/sleep", "5")
	m.Sleep(2 * time.Second)
	m.Miss(quark.LossRingFull, 7)
	child.SetComm("wrong \xff").Kill(9)
	where, err := quark.ParseRules("tag killed if exit_signal == SIGKILL\nwrong-id: pass if exec and exe == id\npass on any")
	if err != nil {
		t.Fatal(err)
	}
	r := sent(t, m, quark.Options{FailedExecs: true, Where: where})
	golden.Compare(t, "testdata/records.golden", dump(r.got()))
	if r.resource["service.name"] != "quark" || r.resource["os.type"] != "linux" {
		t.Errorf("got resource %v", r.resource)
	}
}

// All names that do not begin with "quark." are in the semantic conventions, for the events of each
// backend on each kernel.
func TestNamesAreOfTheConventions(t *testing.T) {
	list := exec.Command("go", "list", "-f", "{{.Dir}}", "go.opentelemetry.io/otel/semconv/v1.43.0")
	dir, err := list.Output()
	if err != nil {
		t.Skipf("needs the go command and modules: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "attribute_group.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, m := range regexp.MustCompile(`attribute\.Key\("([^"]+)"\)`).FindAllSubmatch(source, -1) {
		known[string(m[1])] = true
	}
	traces, err := filepath.Glob("../../engine/enginetest/testdata/*.trace")
	if err != nil || len(traces) == 0 {
		t.Fatal(traces, err)
	}
	seen := make(map[string]bool)
	for _, file := range traces {
		r := sent(t, enginetest.Trace(t, file), quark.Options{})
		for name := range r.resource {
			seen[name] = true
		}
		for _, record := range r.got() {
			for name := range values(record.Attributes) {
				seen[name] = true
			}
		}
	}
	for name := range seen {
		if !known[name] && !strings.HasPrefix(name, "quark.") {
			t.Errorf("%s is not a name of the conventions", name)
		}
	}
	for _, name := range []string{"process.pid", "process.parent_pid", "process.executable.path", "process.command_args", "process.exit.code",
		"process.creation.time", "process.user.id", "service.name", "quark.unknown", "quark.cached", "quark.exit_signal"} {
		if !seen[name] {
			t.Errorf("no record has %s", name)
		}
	}
}

// named is a source on a host whose name is not UTF-8.
type named struct{ *enginetest.Machine }

func (n named) Clock() *quark.Clock {
	c := n.Machine.Clock()
	c.Host.Name = "wrong \xff"
	return c
}

// Text that is not UTF-8 does not prevent requests.
func TestHostName(t *testing.T) {
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exit(0)
	if r := sent(t, named{m}, quark.Options{}); r.resource["host.name"] != "wrong \ufffd" {
		t.Errorf("got resource %v", r.resource)
	}
}

// The exporter follows OpenTelemetry's variables, and compresses requests if they say so.
func TestEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	m := enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exit(0)
	r := sent(t, m, quark.Options{})
	if r.header.Get("x-token") != "secret" || r.header.Get("Content-Encoding") != "gzip" || r.resource["deployment.environment.name"] != "test" {
		t.Errorf("got headers %v, resource %v", r.header, r.resource)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent")
	if _, err := otlp.New(nil, quick(r.url())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v", err)
	}
}

func TestWrongURL(t *testing.T) {
	for url, want := range map[string]string{
		"collector:4318": "want the URL", "": "want the URL", "ftp://x": "want the URL", "http://": "want the URL", "http://x:4317": "gRPC", "http://x:y": "invalid port", "://": "missing protocol",
		"http://[::1]:99999": "invalid port 99999", "http://x:0": "invalid port 0", "https://:4318": "want the URL",
		"http://me:secret@x:4318": "OTEL_EXPORTER_OTLP_HEADERS", "http://x:4318/v1/logs?token=1": "only a path", "http://x:4318/#a": "only a path",
	} {
		if _, err := otlp.New(nil, otlp.Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want %q", url, err, want)
		}
	}
}
