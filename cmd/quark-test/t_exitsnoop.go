package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// snoopLine has the members of a line of quark-exitsnoop -j that the test checks.
type snoopLine struct {
	Event      string  `json:"event"`
	TraceID    string  `json:"trace_id"`
	Pid        int     `json:"pid"`
	Code       *int    `json:"code"`
	Signal     *int    `json:"signal"`
	WaitStatus *uint32 `json:"wait_status"`
	Running    bool    `json:"running"`
	Tracing    int     `json:"tracing"`
	Recorded   int     `json:"recorded"`
	Deleted    int     `json:"deleted"`
}

// exitsnoopCommand uses all verbs of quark-exitsnoop. The cases of package exitsnoop are its Go
// tests, which guests run as well.
func exitsnoopCommand(t *test) {
	c := &snoopCommand{t, filepath.Join(filepath.Dir(t.self()), "quark-exitsnoop"), t.TempDir()}
	if _, err := os.Stat(c.path); err != nil {
		t.Skipf("%v: make build puts it beside this program", err)
	}
	t.Cleanup(func() {
		if err := exitsnoop.Clean(c.root); err != nil && !errors.Is(err, exitsnoop.ErrNotRunning) {
			t.Errorf("%v", err)
		}
	})
	switch s, err := exitsnoop.NewStoreFromAttach(); {
	case errors.Is(err, exitsnoop.ErrUnsupported):
		t.Skipf("%v", err)
	case err != nil:
		t.Fatalf("%v", err)
	default:
		s.Close()
	}
	if l := c.one(1, "status"); l.Running {
		t.Errorf("it runs before it was started: %+v", l)
	}

	// A process that ends while no command runs.
	g := t.gate("the process to be told to end")
	p := t.spawn(script().WaitFor(g.r).Exit(7), barefork{})
	pid := itoa(p.PID)
	traced := c.one(0, "trace", "-n", pid)
	c.wantLine("trace -n", traced, snoopLine{Event: "tracing", Pid: p.PID})
	c.wantLine("list", c.one(0, "list"), snoopLine{Event: "tracing", Pid: p.PID, TraceID: traced.TraceID})
	if l := c.one(0, "status"); !l.Running || l.Tracing != 1 {
		t.Errorf("status says %+v", l)
	}
	g.open()
	t.reapBlind(p)
	code, raw := 7, uint32(p.status)
	want := snoopLine{Event: "exited", Pid: p.PID, TraceID: traced.TraceID, Code: &code, WaitStatus: &raw}
	c.wantLine("list", c.one(0, "list"), want)
	if text := c.run(0, "", "list"); !strings.HasPrefix(text, pid+" exited with 7") {
		t.Errorf("list prints %q", text)
	}
	c.run(1, "no such process", "trace", pid)
	if l := c.one(0, "clean", "--older", "1ns"); l.Deleted != 1 {
		t.Errorf("clean --older says %+v", l)
	}

	c.waitFor(t.spawn(script().Stop(), barefork{}))
	if l := c.one(0, "status"); l.Recorded != 2 || l.Tracing != 0 {
		t.Errorf("status says %+v", l)
	}
	c.run(0, "", "clean")
	c.run(1, "exitsnoop does not run here", "list")

	// A command that quark-exitsnoop starts.
	tiny := filepath.Join(t.TempDir(), "tiny")
	if err := tinyelf.Write(tiny, 5); err != nil {
		t.Fatalf("%v", err)
	}
	code, raw = 5, 5<<8
	l := c.one(5, "run", "--", tiny)
	c.wantLine("run", l, snoopLine{Event: "exited", Pid: l.Pid, TraceID: l.TraceID, Code: &code, WaitStatus: &raw})
}

// snoopCommand is quark-exitsnoop with its state directory.
type snoopCommand struct {
	t          *test
	path, root string
}

// run runs the command, checks its exit status and that its error output contains a text, and
// returns its output.
func (c *snoopCommand) run(status int, complaint string, args ...string) string {
	what := strings.Join(args, " ")
	c.t.Waiting("quark-exitsnoop " + what)
	var o, e strings.Builder
	cmd := exec.Command(c.path, append([]string{"-r", c.root}, args...)...)
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("%v", err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(e.String(), complaint) || complaint == "" && e.Len() > 0 {
		c.t.Errorf("%s: exit status %d, want %d; it says %q, want %q", what, got, status, e.String(), complaint)
	}
	return o.String()
}

// one runs the command with -j, which has to print one line.
func (c *snoopCommand) one(status int, args ...string) (l snoopLine) {
	out := c.run(status, "", append([]string{"-j"}, args...)...)
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		c.t.Fatalf("%s prints %q, not one JSON object: %v", args[0], out, err)
	}
	return l
}

// waitFor lets the command wait for a process, and kills the process once it is traced.
func (c *snoopCommand) waitFor(p *proc) {
	t := c.t
	t.Waiting("quark-exitsnoop trace")
	cmd := exec.Command(c.path, "-r", c.root, "-j", "trace", strconv.Itoa(p.PID))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("start quark-exitsnoop: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := json.NewDecoder(bufio.NewReader(out))
	next := func() (l snoopLine) {
		if err := lines.Decode(&l); err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("trace: %v", err)
		}
		return l
	}
	begun := next()
	c.wantLine("trace", begun, snoopLine{Event: "tracing", Pid: p.PID})
	unix.Kill(p.PID, unix.SIGTERM)
	t.reapBlind(p)
	signal, raw := int(unix.SIGTERM), uint32(p.status)
	c.wantLine("trace", next(), snoopLine{Event: "exited", Pid: p.PID, TraceID: begun.TraceID, Signal: &signal, WaitStatus: &raw})
	if err := cmd.Wait(); err != nil {
		t.Errorf("trace: %v", err)
	}
}

// wantLine compares lines. An empty trace id in want matches any.
func (c *snoopCommand) wantLine(what string, got, want snoopLine) {
	if want.TraceID == "" {
		want.TraceID = got.TraceID
	}
	text := func(l snoopLine) string {
		b, _ := json.Marshal(l) // numbers and strings are no error
		return string(b)
	}
	if g, w := text(got), text(want); g != w || got.TraceID == "" {
		c.t.Errorf("%s prints %s, want %s", what, g, w)
	}
}
