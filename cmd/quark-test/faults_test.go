package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/harness/record"
)

// faulty are tests that go wrong in every way. They run instead of the others in processes with
// faultyEnv.
var faulty = []row{
	{name: "t_pass", run: func(*test) {}},
	{name: "t_fail", run: func(t *test) { t.Errorf("first"); t.Errorf("last") }},
	{name: "t_one", run: func(t *test) {
		for range 2 {
			t.cells[0].try(func() { t.cells[0].Fatalf("bad") })
		}
		t.cells[1].Logf("goes on")
	}},
	{name: "t_early", run: func(t *test) { t.cells[0].Fatalf("bad") }},
	{name: "t_skip", run: func(t *test) { t.Skipf("no %s here", "moon") }},
	{name: "t_skip_one", run: func(t *test) { t.cells[1].try(func() { t.cells[1].Skipf("no moon") }) }},
	{name: "t_panic", run: func(*test) { panic("oh") }},
	{name: "t_hang", run: func(t *test) { t.Waiting("EXIT of pid 5"); time.Sleep(time.Hour) }},
	{name: "t_exit", run: func(*test) { os.Exit(3) }},
	{name: "t_descriptor", run: func(*test) { unix.Open("/dev/null", unix.O_RDONLY, 0) }},
	{name: "t_process", run: func(*test) {
		cmd := exec.Command("sleep", "100")
		cmd.Start()
		cmd.Process.Release() // closes its pidfd
	}},
	{name: "t_orphan", run: func(*test) { exec.Command("sh", "-c", "sleep 100 &").Run() }},
	{name: "t_mount", run: func(t *test) {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			t.Skipf("%v", err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}},
	{name: "t_none", noBackend: true, run: func(*test) {}},
}

const faultyEnv = "QUARK_TEST_FAULTY"

// useFaulty replaces the tests by faulty ones, in child processes too.
func useFaulty(t *testing.T) {
	t.Helper()
	if why := unfitReason(); why != "" {
		t.Skip(why)
	}
	t.Setenv(faultyEnv, "1")
	was := tests
	tests = faulty
	t.Cleanup(func() { tests = was })
}

func TestFaults(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // t_mount leaves its directory
	useFaulty(t)
	var out strings.Builder
	file := filepath.Join(t.TempDir(), "records")
	failed, err := program(context.Background(), []string{"-t", "--deadline", "4s", "-j", file}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for name, want := range map[string][2]string{ // on ebpf and cnproc
		"t_pass":       {"ok", "ok"},
		"t_fail":       {"FAIL (last)", "FAIL (last)"},
		"t_one":        {"FAIL (bad)", "ok"},
		"t_early":      {"FAIL (bad)", "FAIL (the test ended early, because of another backend)"},
		"t_skip":       {"skip (no moon here)", "skip (no moon here)"},
		"t_skip_one":   {"ok", "skip (no moon)"},
		"t_panic":      {"FAIL (panic: oh", "FAIL (panic: oh"},
		"t_hang":       {"FAIL (panic: hang: deadline of 4s passed while waiting for EXIT of pid 5", "FAIL"},
		"t_exit":       {"FAIL (the test binary ended: exit status 3)", "FAIL"},
		"t_descriptor": {"FAIL (left behind: descriptor ", "FAIL"},
		"t_process":    {"FAIL (left behind: process ", "FAIL"},
		"t_orphan":     {"FAIL (left behind: process ", "FAIL"},
		"t_mount":      {"FAIL (left behind: mount ", "FAIL"},
	} {
		for i, backend := range defaultBackends {
			if line := "\n" + name + " @ " + backend + ": " + want[i]; !strings.Contains("\n"+out.String(), line) {
				t.Errorf("the output lacks line %q", line)
			}
		}
	}
	if !strings.Contains(out.String(), "\nt_none @ none: ok\n") || !strings.HasSuffix(out.String(), "\n5 passed, 19 failed, 3 skipped\n") || failed != 19 {
		t.Errorf("got %d failed tests, end of output %q", failed, out.String()[max(0, out.Len()-100):])
	}
	checkRecords(t, file)
	if t.Failed() {
		t.Log(out.String())
	}
}

// checkRecords checks that each planned job has a start and then a result.
func checkRecords(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var plan, started, ended []record.Job
	new(record.Splitter).Feed(b, func(rec any, err error) {
		switch r := rec.(type) {
		case record.Plan:
			plan = r.Jobs
		case record.Start:
			started = append(started, record.Job(r))
		case record.Result:
			if ended = append(ended, r.Job()); !slices.Contains(started, r.Job()) {
				t.Errorf("%s ended before its start", r.Job())
			}
		case record.Output:
		default:
			t.Errorf("record %v: %v", rec, err)
		}
	})
	if len(plan) != 27 || !slices.Equal(plan, started) || !slices.Equal(plan, ended) {
		t.Errorf("planned %v\nstarted %v\nended %v", plan, started, ended)
	}
}

func TestInterrupted(t *testing.T) {
	useFaulty(t)
	ctx, cancel := context.WithCancel(context.Background())
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer w.Close()
	go func() {
		out.Read(make([]byte, 100)) // the test has begun
		cancel()
	}()
	if _, err := program(ctx, []string{"t_hang"}, w); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got error %v", err)
	}
}

// Each test fails on a backend without a shared queue, not only the first one.
func TestUnopened(t *testing.T) {
	defer shared.close(t)
	for i := range 2 {
		x := &test{T: t, settings: new(settings)}
		x.cells = []*cell{{test: x, backend: "nothing"}}
		x.guard(func() { shared.open(x, defaultQueue) })
		if c := x.cells[0]; !c.failed || !c.ended || !strings.Contains(c.reason, "nothing") {
			t.Errorf("test %d: got failed %v, reason %q", i, c.failed, c.reason)
		}
	}
}
