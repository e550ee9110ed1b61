package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// exitsnoopCommand runs quark-exitsnoop on this kernel. Go tests check the other verbs and options.
func exitsnoopCommand(t *test) {
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find this program: %v", err)
	}
	program := filepath.Join(filepath.Dir(self), "quark-exitsnoop")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("quark-exitsnoop"); err != nil {
			t.Skipf("%v: 'make build' installs it next to quark-test", err)
		}
	}
	root := t.TempDir()
	if err := exitsnoop.EnsureRunning(root); errors.Is(err, exitsnoop.ErrUnsupported) {
		t.Skipf("%v", err)
	}
	exitsnoop.Clean(root)
	t.Cleanup(func() {
		if err := exitsnoop.Clean(root); err != nil && !errors.Is(err, exitsnoop.ErrNotRunning) {
			t.Errorf("%v", err)
		}
	})
	run := func(status int, pattern string, args ...string) {
		t.Waiting("quark-exitsnoop " + strings.Join(args, " "))
		cmd := exec.Command(program, args...)
		out, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatalf("%v", err)
		}
		if strings.Contains(string(out), exitsnoop.ErrUnsupported.Error()) {
			t.Skipf("%s", out)
		}
		if got := cmd.ProcessState.ExitCode(); got != status || !regexp.MustCompile(pattern).Match(out) {
			t.Fatalf("quark-exitsnoop %q: got exit status %d, want %d; got output %q, want %s", args, got, status, out, pattern)
		}
	}

	// Trace a process that ends while no command runs.
	end := t.gate("the order to end")
	p := t.spawn(script().WaitFor(end.r).Exit(7), barefork{})
	pid := itoa(p.PID)
	run(0, `^`+pid+` traced as [0-9]+\n$`, "trace", "-r", root, "-n", pid)
	end.open()
	t.reapUnread(p)
	run(0, `^`+pid+` exited with 7( [0-9]+s ago)?\n$`, "list", "-r", root)
	run(0, `"tracing":0,.*"recorded":1,"lost":0,`, "status", "-r", root, "-j")
	run(0, `^1 deleted\n$`, "clean", "-r", root, "--older", "1ns")
	run(0, `^$`, "clean", "-r", root)

	// Trace a command that quark-exitsnoop starts.
	tiny := filepath.Join(t.TempDir(), "tiny")
	if err := tinyelf.Write(tiny, 5); err != nil {
		t.Fatalf("%v", err)
	}
	run(5, `^{"event":"exited",.*"code":5,"wait_status":1280,.*}\n$`, "run", "-j", "--", tiny)
}
