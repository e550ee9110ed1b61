package sourcetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
)

// second runs a program in a directory of its own and returns its output, the
// exec that it did itself, which is its second, and the directory.
func second(t *testing.T, s Source, program string, args ...string) ([]byte, *engine.RawEvent, string) {
	t.Helper()
	cmd := Child(program, args...)
	cmd.Dir = t.TempDir()
	out, evs := Run(t, s, cmd)
	execs := evs.Of(cmd.Process.Pid, engine.KindExec)
	if len(execs) != 2 {
		t.Fatalf("%d execs, not 2: %s", len(execs), evs.Kinds(cmd.Process.Pid))
	}
	return out, execs[1], cmd.Dir
}

func (c Conformance) workingDirectory(t *testing.T) {
	s := c.Open(t, Options{})
	for _, depth := range c.WholePaths {
		out, exec, _ := second(t, s, "deep", strconv.Itoa(depth))
		WantTruth(t, exec, ParseTruth(t, out))
	}
}

func (c Conformance) tooDeepDirectory(t *testing.T) {
	s := c.Open(t, Options{})
	_, exec, whole := second(t, s, "deep", strconv.Itoa(c.CutPath))
	for i := range c.CutPath {
		whole += fmt.Sprintf("/d%d", i)
	}
	got := string(exec.Bytes(engine.FieldCwd))
	names := strings.Count(got, "/") + 1
	if !exec.Task.Truncated.Has(engine.FieldCwd) || !strings.HasSuffix(whole, "/"+got) || names < c.CutPathNames {
		t.Errorf("%d names of %d: %q, truncated %v", names, c.CutPath, got, exec.Task.Truncated)
	}
}

func (c Conformance) longNames(t *testing.T) {
	s := c.Open(t, Options{})
	cmd := Child("exit")
	cmd.Dir = filepath.Join(t.TempDir(), strings.Repeat(strings.Repeat("x", 250)+"/", 15))
	if err := os.MkdirAll(cmd.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, evs := Run(t, s, cmd)
	exec := evs.One(t, cmd.Process.Pid, engine.KindExec)
	got, cut := string(exec.Bytes(engine.FieldCwd)), exec.Task.Truncated.Has(engine.FieldCwd)
	if got == cmd.Dir && !cut || cut && strings.HasSuffix(cmd.Dir, "/"+got) && len(got) >= c.LongNamesPath {
		return
	}
	t.Errorf("%d bytes of %d: %q, truncated %v", len(got), len(cmd.Dir), got, cut)
}

func (c Conformance) mounts(t *testing.T) {
	s := c.Open(t, Options{})
	out, exec, _ := second(t, s, "mounted")
	truth := ParseTruth(t, out)
	if !strings.HasSuffix(truth["cwd"], "/dst/inner/x/y") {
		t.Fatalf("the child is in %s", truth["cwd"])
	}
	WantTruth(t, exec, truth)
}

func (c Conformance) chroot(t *testing.T) {
	s := c.Open(t, Options{})
	_, exec, _ := second(t, s, "chrooted")
	WantText(t, exec, engine.FieldCwd, "/sub")
	WantText(t, exec, engine.FieldFilename, "/self")
}

func (c Conformance) memfd(t *testing.T) {
	s := c.Open(t, Options{})
	_, exec, _ := second(t, s, "memfd")
	WantText(t, exec, engine.FieldFilename, "memfd:in memory")
}

func (c Conformance) arguments(t *testing.T) {
	s := c.Open(t, Options{})
	for _, size := range []int{1, 400, 500, 1500, 4000, 20000, 100000} {
		cmd := Child("exit", strings.Repeat("a", size), "\xff\xfe\n\"")
		_, evs := Run(t, s, cmd)
		exec := evs.One(t, cmd.Process.Pid, engine.KindExec)
		want := commandLine(cmd.Args)
		if len(want) <= c.Arguments {
			WantText(t, exec, engine.FieldCmdline, want)
			continue
		}
		got, cut := string(exec.Bytes(engine.FieldCmdline)), exec.Task.Truncated.Has(engine.FieldCmdline)
		if got != want[:c.Arguments] || !cut {
			t.Errorf("%d bytes of %d, truncated %v", len(got), len(want), cut)
		}
	}
	cmd := Child("exit", make([]string, 2000)...)
	_, evs := Run(t, s, cmd)
	WantText(t, evs.One(t, cmd.Process.Pid, engine.KindExec), engine.FieldCmdline, commandLine(cmd.Args))
}

// commandLine is what /proc/PID/cmdline has.
func commandLine(args []string) string { return strings.Join(args, "\x00") + "\x00" }

// alive reads while the process lives, so that nothing is cut.
func (c Conformance) alive(t *testing.T) {
	s := c.Open(t, Options{})
	cmd := Child("wait", strings.Repeat("a", 20000))
	cmd.Dir = filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	if err := os.MkdirAll(cmd.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Drain(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var evs Events
	for deadline := time.Now().Add(5 * time.Second); len(evs.Of(cmd.Process.Pid, engine.KindExec)) == 0; {
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
		evs = append(evs, s.Drain(t)...)
	}
	in.Close()
	cmd.Wait()
	exec := evs.One(t, cmd.Process.Pid, engine.KindExec)
	WantText(t, exec, engine.FieldCwd, cmd.Dir)
	WantText(t, exec, engine.FieldCmdline, commandLine(cmd.Args))
}
