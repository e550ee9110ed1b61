package testrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fake is a suite of tests that go wrong in every way.
var fake = &Suite{
	Program: "fake", Long: "A fake.",
	Backends: []Backend{{"ebpf", "b", true}, {"kprobe", "k", false}, {"cnproc", "c", true}, {"further", "", false}},
	Tests: []Test{
		{Name: "t_pass", Doc: "passes", Run: func(t *T) { t.Logf("log of a good test") }},
		{Name: "t_fail", Doc: "fails twice", Run: func(t *T) { t.Errorf("first %s", t.Cells[0].Backend); t.Errorf("second") }},
		{Name: "t_fatal", Doc: "ends early", Run: func(t *T) { t.Fatalf("fatal"); panic("not reached") }},
		{Name: "t_skip", Doc: "does not apply", Run: func(t *T) { t.Skipf("no %s here", "moon") }},
		{Name: "t_fail_skip", Doc: "a skip does not hide a failure", Run: func(t *T) { t.Errorf("bad"); t.Skipf("never mind") }},
		{Name: "t_panic", Doc: "panics", Run: func(*T) { panic("found by nobody") }},
		{Name: "t_clean_panic", Doc: "panics in a cleanup", Run: func(t *T) { t.Cleanup(func() { panic("unclean") }) }},
		{Name: "t_exit", Doc: "leaves without a verdict", Run: func(t *T) { fmt.Println("bye"); os.Exit(3) }},
		{Name: "t_killed", Doc: "is killed", Run: func(t *T) { unix.Kill(os.Getpid(), unix.SIGKILL); select {} }},
		{Name: "t_hang", Doc: "hangs", Run: func(t *T) { t.Waiting("EXIT of pid 5"); unix.Pause() }},
		{Name: "t_fd", Doc: "leaves a descriptor", Run: func(t *T) { unix.Open("/dev/null", unix.O_RDONLY, 0) }},
		{Name: "t_fd_closed", Doc: "leaves none", Run: func(t *T) {
			f, _ := os.Open("/dev/null")
			t.Cleanup(func() { f.Close() })
		}},
		{Name: "t_orphan", Doc: "leaves a process", Run: func(t *T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"TESTRUN_SLEEP=1"}
			cmd.Start()
			cmd.Process.Release()
		}},
		{Name: "t_daemon", Doc: "leaves a process of another session", Run: func(t *T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"TESTRUN_SLEEP=1"}
			cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
			cmd.Start()
			cmd.Process.Release()
		}},
		{Name: "t_dir", Doc: "gets a directory", Run: func(t *T) {
			if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
				t.Fatalf("%v", err)
			}
			fmt.Println(t.TempDir())
		}},
		{Name: "s_1", Doc: "shares", Shared: "it", Run: shares},
		{Name: "s_2", Doc: "shares", Shared: "it", Run: shares},
		{Name: "s_fail", Doc: "shares and fails", Shared: "it", Run: func(t *T) { shares(t); t.Errorf("bad") }},
		{Name: "s_exit", Doc: "shares and dies", Shared: "it", Run: func(t *T) { shares(t); os.Exit(3) }},
		{Name: "s_hang", Doc: "shares and hangs", Shared: "it", Run: func(t *T) { shares(t); unix.Pause() }},
		{Name: "s_fd", Doc: "shares and leaves a descriptor", Shared: "it", Run: func(t *T) { unix.Open("/dev/null", unix.O_RDONLY, 0) }},
		{Name: "s_child", Doc: "shares and leaves a child", Shared: "it", Run: func(t *T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"TESTRUN_SLEEP=1"}
			cmd.Start()
		}},
		{Name: "s_daemon", Doc: "shares and leaves an orphan", Shared: "it", Run: func(t *T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"TESTRUN_SLEEP=2"}
			cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
			cmd.Run()
		}},
		{Name: "s_cell", Doc: "shares, fails on one backend and is over on it", Shared: "it", Run: func(t *T) {
			on := []int{}
			for range 2 {
				for i, c := range t.Cells {
					c.Try(func() {
						on = append(on, i)
						if i == 0 {
							c.Fatalf("bad of %s", c.Backend)
						}
					})
				}
			}
			t.Logf("on %v", on)
		}},
		{Name: "s_skip", Doc: "shares, skips on one backend and panics on another", Shared: "it", Run: func(t *T) {
			t.Cells[0].Try(func() { t.Cells[0].Skipf("not here") })
			t.Cells[1].Try(func() { panic("oh") })
		}},
		{Name: "s_early", Doc: "shares and is ended by one backend alone", Shared: "it", Run: func(t *T) {
			t.Cells[0].Fatalf("bad of %s", t.Cells[0].Backend)
		}},
		{Name: "s_skip_fd", Doc: "shares, skips and leaves a descriptor", Shared: "it", Run: func(t *T) {
			unix.Open("/dev/null", unix.O_RDONLY, 0)
			t.Cells[0].Try(func() { t.Cells[0].Skipf("not here") })
		}},
		{Name: "s_3", Doc: "shares", Shared: "it", Run: shares},
		{Name: "s_4", Doc: "shares", Shared: "it", Run: shares},
	},
	Share: func(t *T, name string) {
		common = nil
		if name != "it" {
			t.Errorf("shared is %q", name)
		}
		switch os.Getenv("TESTRUN_SHARE") {
		case "fatal":
			t.Fatalf("nothing to share")
		case "fatal in one":
			t.Cells[0].Try(func() { t.Cells[0].Fatalf("nothing to share") })
		case "leak":
			unix.Open("/dev/null", unix.O_RDONLY, 0)
		}
		f, _ := os.Open("/dev/zero")
		t.Cleanup(func() { f.Close() })
	},
}

// common is what the tests of a process share: who was there.
var common []string

func shares(t *T) {
	common = append(common, t.Test.Name)
	for _, c := range t.Cells {
		c.Try(func() { c.Logf("seen") })
	}
	fmt.Println(common, len(t.TempDir()) > 0)
}

// Tests that share run in one process until one fails, and what goes wrong is
// told of the right one.
func TestShared(t *testing.T) {
	for _, c := range []struct {
		args, share string
		want        []string
	}{
		{"-bv s_1 s_2 s_3", "", []string{"[s_1] true", "[s_1 s_2] true", "[s_1 s_2 s_3] true", "3 passed, 0 failed"}},
		{"-bv s_1", "", []string{"s_1 @ ebpf: ok", "\n  seen\n[s_1] true\n1 passed, 0 failed"}},
		// On several backends each runs once, for all of them.
		{"-bcv s_1 s_2", "", []string{"s_1 @ ebpf: ok", "  ebpf: seen\n  cnproc: seen\n[s_1] true", "s_1 @ cnproc: ok", "[s_1] true", "s_2 @ ebpf: ok", "[s_1 s_2] true", "4 passed, 0 failed"}},
		{"-bc t_pass s_1 t_dir", "", []string{"t_pass @ ebpf", "t_dir @ ebpf", "t_pass @ cnproc", "t_dir @ cnproc", "s_1 @ ebpf", "s_1 @ cnproc", "6 passed"}},
		{"-bc s_cell s_3", "", []string{"s_cell @ ebpf: FAIL (bad of ebpf)\n  ebpf: bad of ebpf\n  on [0 1 1]\ns_cell @ cnproc: ok\n", "3 passed, 1 failed"}},
		{"-bc s_skip", "", []string{"s_skip @ ebpf: skip (not here)\ns_skip @ cnproc: FAIL (panic: oh)\n  cnproc: panic: oh\n", "0 passed, 1 failed, 1 skipped"}},
		{"-bc s_early", "", []string{"s_early @ ebpf: FAIL (bad of ebpf)", "s_early @ cnproc: FAIL (the test ended early", "0 passed, 2 failed"}},
		{"-b s_skip_fd", "", []string{"FAIL (left open: descriptor "}},
		{"-bc s_exit", "", []string{"s_exit @ ebpf: FAIL (died: exit status 3)", "s_exit @ cnproc: FAIL (died: exit status 3)", "0 passed, 2 failed"}},
		{"-bc s_1 s_2", "fatal in one", []string{"s_1 @ ebpf: FAIL (nothing to share)", "s_1 @ cnproc: ok", "s_2 @ ebpf: FAIL (nothing to share)", "s_2 @ cnproc: ok", "2 passed, 2 failed"}},
		{"-bv s_1 s_fail s_3 s_4", "", []string{"s_1 @ ebpf: ok", "FAIL (bad)", "[s_1 s_fail]", "[s_3]", "[s_3 s_4]", "3 passed, 1 failed"}},
		{"-bv s_1 s_exit s_3", "", []string{"s_exit @ ebpf: FAIL (died: exit status 3)", "[s_1 s_exit]", "[s_3]", "2 passed, 1 failed"}},
		{"-bv --deadline 100ms s_1 s_hang s_3", "", []string{"s_hang @ ebpf: FAIL (hang: deadline", "[s_3]", "2 passed, 1 failed"}},
		{"-bv s_1 s_fd s_3", "", []string{"s_fd @ ebpf: FAIL (left open: descriptor ", "[s_3]", "2 passed, 1 failed"}},
		{"-bv s_1 s_child s_3", "", []string{"s_child @ ebpf: FAIL (left ", "[s_3]", "2 passed, 1 failed"}},
		{"-bv s_1 s_daemon s_3", "", []string{"s_daemon @ ebpf: FAIL (left behind: process ", "[s_3]", "2 passed, 1 failed"}},
		{"-b s_1 s_2", "fatal", []string{"s_1 @ ebpf: FAIL (nothing to share)", "s_2 @ ebpf: FAIL (nothing to share)", "0 passed, 2 failed"}},
		{"-b s_1 s_2", "leak", []string{"s_1 @ ebpf: ok", "s_2 @ ebpf: FAIL (left open: descriptor ", "1 passed, 1 failed"}},
	} {
		t.Run(c.args+c.share, func(t *testing.T) {
			t.Setenv("TESTRUN_SHARE", c.share)
			out, _ := fakeMain(t, c.args)
			rest := out
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("%q is not in the output, or not in its place:\n%s", w, out)
				}
				rest = after
			}
		})
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv("TESTRUN_SLEEP") {
	case "1":
		unix.Pause()
	case "2": // in the background
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{"TESTRUN_SLEEP=1"}
		cmd.Start()
		return
	}
	fake.Child()
	if path := os.Getenv("TESTRUN_MAIN"); path != "" {
		ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
		os.Exit(fake.Main(ctx, strings.Fields(path), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// fakeMain runs the suite in a process of its own, as it reaps all children.
func fakeMain(t *testing.T, args string) (out string, status int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TESTRUN_MAIN="+args, "QUARK_RESULTS=", "TMPDIR="+t.TempDir())
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.Run()
	left, _ := os.ReadDir(cmd.Env[len(cmd.Env)-1][len("TMPDIR="):])
	if len(left) > 0 {
		t.Errorf("%s left %v", args, left)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		want   []string // parts of the output, in order
		not    string
	}{
		{"-b t_pass", 0, []string{"t_pass @ ebpf: ok\n1 passed, 0 failed, 0 skipped\n"}, "log of"},
		{"-bv t_pass", 0, []string{"t_pass @ ebpf: ok ", " ms\n  log of a good test\n"}, ""},
		{"t_pass t_skip", 0, []string{"t_pass @ ebpf: ok\nt_skip @ ebpf: skip (no moon here)\nt_pass @ cnproc: ok\n", "2 passed, 0 failed, 2 skipped"}, ""},
		{"-kc t_pass", 0, []string{"t_pass @ kprobe: ok\nt_pass @ cnproc: ok\n"}, "ebpf"},
		{"-k --further --ebpf t_pass", 0, []string{"t_pass @ ebpf: ok\nt_pass @ kprobe: ok\nt_pass @ further: ok\n"}, "cnproc"},
		{"--x t_pass", Unusable, []string{"fake: unknown flag: --x (see fake -h)"}, ""},
		{"t_fail", 2, []string{"t_fail @ ebpf: FAIL (first ebpf)\n  first ebpf\n  second\n", "FAIL (first cnproc)"}, ""},
		{"-b t_fatal", 1, []string{"FAIL (fatal)\n"}, "not reached"},
		{"-b t_fail_skip", 1, []string{"FAIL (bad)\n"}, ""},
		{"-b t_panic", 1, []string{"FAIL (panic: found by nobody)", "testrun_test.go"}, ""},
		{"-b t_clean_panic", 1, []string{"FAIL (panic: unclean)"}, ""},
		{"-b t_exit", 1, []string{"FAIL (died: exit status 3)\nbye\n"}, ""},
		{"-b t_killed", 1, []string{"FAIL (died: signal: killed)"}, ""},
		{"-b --deadline 50ms t_hang t_dir", 1, []string{"t_hang @ ebpf: FAIL (hang: deadline of 50ms passed while waiting for EXIT of pid 5)", "SIGQUIT", "unix.Pause", "t_dir @ ebpf: ok"}, ""},
		{"-b t_fd", 1, []string{"FAIL (left open: descriptor ", "(/dev/null))"}, ""},
		{"-b t_fd_closed", 0, []string{"ok"}, ""},
		{"-b t_orphan t_dir", 1, []string{"FAIL (left behind: process ", "still running)", "t_dir @ ebpf: ok"}, ""},
		{"-b t_daemon", 1, []string{"FAIL (left behind: process ", "still running)"}, ""},
		{"-b t_dir", 0, []string{"ok"}, ""},
		{"-b1 t_pass t_fd", 1, []string{"log of a good test\nt_pass @ ebpf: ok", "FAIL (left open"}, ""},
		{"-bx t_* -x s_*", 0, []string{"0 passed, 0 failed, 0 skipped"}, ""},
		{"-b t_f* -x t_fatal -x t_fail*", 1, []string{"t_fd @ ebpf: FAIL", "t_fd_closed @ ebpf: ok", "1 passed, 1 failed"}, "t_fatal"},
		{"t_nothing", Unusable, []string{`fake: no test is called "t_nothing" (-l lists them)`}, ""},
		{"-x t_nothing", Unusable, []string{`no test is called "t_nothing"`}, ""},
		{"[", Unusable, []string{"fake: pattern"}, ""},
		{"-z", Unusable, []string{"fake: unknown shorthand flag: 'z' in -z (see fake -h)"}, ""},
		{"-1t", Unusable, []string{"exclude each other"}, ""},
		{"--deadline 0s", Unusable, []string{"must be above 0"}, ""},
		{"-j /nonexistent/x", Unusable, []string{"open /nonexistent/x for records: no such file"}, ""},
		{"-V", 0, []string{"fake version (devel)\n"}, ""},
		{"-h", 0, []string{"  fake [options] [TEST...]\n", "-1, --one-process"}, ""},
		{"-l t_s*", 0, []string{"t_skip                 does not apply\n"}, "t_pass"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			out, status := fakeMain(t, c.args)
			if status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			rest := out
			for _, w := range c.want {
				_, after, ok := strings.Cut(rest, w)
				if !ok {
					t.Fatalf("%q is not in the output, or not in its place:\n%s", w, out)
				}
				rest = after
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("%q is in the output:\n%s", c.not, out)
			}
		})
	}
}

func TestExitStatusDoesNotWrap(t *testing.T) {
	s := Suite{Program: "many", Backends: fake.Backends}
	for i := range 128 {
		s.Tests = append(s.Tests, Test{Name: fmt.Sprint("t_", i), Run: func(t *T) { t.Fatalf("bad") }})
	}
	var out bytes.Buffer
	if status := s.Main(context.Background(), []string{"-1", "-j", ""}, &out, &out); status != MaxFailed {
		t.Errorf("exit status %d of 256 failures", status)
	}
}

func TestUnfitSkipsAll(t *testing.T) {
	s := *fake
	s.Unfit = func() string { return "needs root" }
	var out bytes.Buffer
	if status := s.Main(context.Background(), []string{"-1", "-j", "", "t_fail", "t_pass"}, &out, &out); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if want := "t_fail @ cnproc: skip (needs root)"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in:\n%s", want, &out)
	}
}

func TestRecords(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(name, []byte("{\"type\":\"hello\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := fakeMain(t, "-b -j "+name+" t_fail t_skip t_pass"); status != 1 {
		t.Fatalf("exit status %d\n%s", status, out)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, ok := r["duration_ms"].(float64); ok != (r["type"] == "result") {
			t.Errorf("duration_ms of %q", line)
		}
		got = append(got, fmt.Sprint(r["type"], " ", r["test"], " ", r["backend"], " ", r["state"], " ", r["reason"], " ", r["log"]))
	}
	want := []string{
		"hello <nil> <nil> <nil> <nil> <nil>",
		"plan <nil> <nil> <nil> <nil> <nil>",
		"start t_pass ebpf <nil> <nil> <nil>",
		"result t_pass ebpf pass <nil>   log of a good test\n",
		"start t_fail ebpf <nil> <nil> <nil>",
		"result t_fail ebpf fail first ebpf   first ebpf\n  second\n",
		"start t_skip ebpf <nil> <nil> <nil>",
		"result t_skip ebpf skip no moon here <nil>",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("records are\n%q\nwant\n%q", got, want)
	}
}

func TestInterrupt(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TESTRUN_MAIN=-b t_hang t_dir", "QUARK_RESULTS=")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("t_hang @ ebpf: "))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "t_hang @ ebpf: " {
		t.Fatalf("%q, %v", line, err)
	}
	cmd.Process.Signal(os.Interrupt)
	rest, _ := io.ReadAll(out)
	cmd.Wait()
	if want := "FAIL (interrupted)\n0 passed, 1 failed, 0 skipped\n"; string(rest) != want {
		t.Errorf("output goes on with %q, want %q", rest, want)
	}
	if want := "fake: interrupted: 1 of 2 tests have run\n"; errors.String() != want {
		t.Errorf("standard error is %q, want %q", &errors, want)
	}
	if status := cmd.ProcessState.ExitCode(); status != Unusable {
		t.Errorf("exit status %d", status)
	}
}

// A mount that comes and goes is not the test's; one that stays is.
func TestResidue(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "events")
	old := residueFiles
	defer func() { residueFiles = old }()
	residueFiles = residueFiles[:1:1]
	mounts := residueFiles[0]
	residueFiles[0].kind, residueFiles[0].paths, residueFiles[0].named = "probe", []string{filepath.Join(dir, "none"), name}, true
	defer func() { residueFiles[0] = mounts }()
	os.WriteFile(name, []byte("p:a (____ptrval____) x=%di\n"), 0o600)
	before := readResidue()
	// The kernel has got random numbers meanwhile.
	os.WriteFile(name, []byte("p:a 0x0000000018571ef9 x=%di\np:b 0x000000005cff1013\n"), 0o600)
	if left := before.left(0); len(left) != 1 || left[0] != "probe p:b" {
		t.Errorf("left %q", left)
	}
	time.AfterFunc(30*time.Millisecond, func() { os.WriteFile(name, []byte("p:a\n"), 0o600) })
	if left := before.left(10 * time.Second); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestChildren(t *testing.T) {
	var want []int
	for range 3 {
		c := exec.Command("sh", "-c", "echo; read x")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.StdinPipe() // it reads until this is closed
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { in.Close(); c.Wait() })
		if _, err := out.Read(make([]byte, 1)); err != nil { // its exec has set comm
			t.Fatal(err)
		}
		want = append(want, c.Process.Pid)
	}
	for name, list := range map[string][]child{"listed": childrenOf(os.Getpid()), "of all": childrenAmong(allProcesses(), os.Getpid())} {
		var got []int
		for _, c := range list {
			got = append(got, c.pid)
			if c.comm != "sh" && slices.Contains(want, c.pid) {
				t.Errorf("%s: %d is called %s", name, c.pid, c.comm)
			}
		}
		for _, pid := range want {
			if !slices.Contains(got, pid) {
				t.Errorf("%s: %v lacks %d", name, got, pid)
			}
		}
	}
	if list := childrenOf(1 << 22); list != nil {
		t.Errorf("children of nobody: %v", list)
	}
}
