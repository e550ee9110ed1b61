package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// exitsnoopCommand uses all verbs of quark-exitsnoop. The cases of package exitsnoop are its Go
// tests, which guests run as well.
func exitsnoopCommand(t *test) {
	c := &snoopCommand{t, filepath.Join(filepath.Dir(t.self()), "quark-exitsnoop"), t.TempDir()}
	if _, err := os.Stat(c.path); err != nil {
		if c.path, err = exec.LookPath("quark-exitsnoop"); err != nil {
			t.Skipf("%v: make build puts it beside quark-test", err)
		}
	}
	if err := exitsnoop.EnsureRunning(c.root); errors.Is(err, exitsnoop.ErrUnsupported) {
		t.Skipf("%v", err)
	}
	exitsnoop.Clean(c.root)
	t.Cleanup(func() {
		if err := exitsnoop.Clean(c.root); err != nil && !errors.Is(err, exitsnoop.ErrNotRunning) {
			t.Errorf("%v", err)
		}
	})

	// A process that ends while no command runs.
	c.run(1, `^not running\n$`, "status")
	end := t.gate("the process to be told to end")
	p := t.spawn(script().WaitFor(end.r).Exit(7), barefork{})
	pid := itoa(p.PID)
	traced := fmt.Sprintf(`^%s traced as ([0-9]+)\n$`, pid)
	id := c.run(0, traced, "trace", "-n", pid)
	c.run(0, `^`+pid+` traced as `+id+`\n$`, "list")
	c.run(0, `^{"running":true,"version":1,"tracing":1,.*}\n$`, "status", "-j")
	end.open()
	t.reapBlind(p)
	c.run(0, `^`+pid+` exited with 7( [0-9]+s ago)?\n$`, "list")
	c.run(0, fmt.Sprintf(`^{"event":"exited","trace_id":"%s","pid":%s,"code":7,"wait_status":%d,.*}\n$`, id, pid, p.status), "list", "-j")
	c.run(1, `no such process`, "trace", pid)
	c.run(0, `^1 deleted\n$`, "clean", "--older", "1ns")

	// The command waits for the end of this process.
	q := t.spawn(script().Stop(), barefork{})
	pid = itoa(q.PID)
	wait := c.command("trace", pid)
	out, err := wait.StdoutPipe()
	if err == nil {
		err = wait.Start()
	}
	if err != nil {
		t.Fatalf("start quark-exitsnoop: %v", err)
	}
	t.Cleanup(func() { wait.Process.Kill() })
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n') // match reports a line that is not whole
	c.match("trace", line, `^`+pid+` traced as [0-9]+\n$`)
	unix.Kill(q.PID, unix.SIGTERM)
	t.reapBlind(q)
	rest, _ := io.ReadAll(lines)
	c.match("trace", string(rest), `^`+pid+` killed by SIGTERM\n$`)
	if err := wait.Wait(); err != nil {
		t.Errorf("trace: %v", err)
	}
	c.run(0, `"tracing":0,.*"recorded":2,"lost":0,`, "status", "-j")
	c.run(0, `^$`, "clean")
	c.run(1, `exitsnoop is not running here`, "list")

	// A command that quark-exitsnoop starts.
	tiny := filepath.Join(t.TempDir(), "tiny")
	if err := tinyelf.Write(tiny, 5); err != nil {
		t.Fatalf("%v", err)
	}
	c.run(5, `^{"event":"exited",.*"code":5,"wait_status":1280,.*}\n$`, "run", "-j", "--", tiny)
}

// snoopCommand is quark-exitsnoop with its state directory.
type snoopCommand struct {
	t          *test
	path, root string
}

func (c *snoopCommand) command(args ...string) *exec.Cmd {
	c.t.Waiting(fmt.Sprintf("quark-exitsnoop %q", args))
	if args[0] != "run" { // run makes no pins
		args = slices.Insert(slices.Clone(args), 1, "-r", c.root)
	}
	return exec.Command(c.path, args...)
}

// run runs the command, and checks its exit status and its output. It returns what the first group
// of the pattern matches.
func (c *snoopCommand) run(status int, pattern string, args ...string) string {
	cmd := c.command(args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("%v", err)
	}
	if strings.Contains(string(out), exitsnoop.ErrUnsupported.Error()) {
		c.t.Skipf("%s", out)
	}
	what := fmt.Sprintf("quark-exitsnoop %q", args)
	if got := cmd.ProcessState.ExitCode(); got != status {
		c.t.Errorf("%s: exit status %d, want %d", what, got, status)
	}
	return c.match(what, string(out), pattern)
}

func (c *snoopCommand) match(what, out, pattern string) string {
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if m == nil {
		c.t.Fatalf("%s prints %q, want %s", what, out, pattern)
	}
	return m[len(m)-1]
}
