//go:build linux && (amd64 || arm64)

package quark_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/filter"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// TestWhere runs a process for each class of term, and compares the decision of a filter with the
// term about each exit with the expected result. The queue has its own filter, which drops one of
// these processes and all other processes of the machine.
func TestWhere(t *testing.T) {
	plain, setuid, waiter := writePrograms(t)
	var st unix.Stat_t
	if err := unix.Stat(plain, &st); err != nil {
		t.Fatal(err)
	}
	children := []struct {
		name string
		cmd  func() *exec.Cmd
	}{
		{"plain", func() *exec.Cmd { return exec.Command(plain) }},
		{"user", func() *exec.Cmd {
			cmd := exec.Command(plain)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
			return cmd
		}},
		{"argument", func() *exec.Cmd { return exec.Command(plain, "needle") }},
		{"variable", func() *exec.Cmd {
			cmd := exec.Command(plain)
			cmd.Env = []string{"QUARK_WHERE=yes"}
			return cmd
		}},
		{"setuid", func() *exec.Cmd { return exec.Command(setuid) }},
		{"killed", func() *exec.Cmd { return exec.Command(waiter) }},
		{"hidden", func() *exec.Cmd { return exec.Command(plain, "hidden") }},
	}
	var all []string // but the hidden one
	for _, c := range children[:len(children)-1] {
		all = append(all, c.name)
	}
	classes := []struct {
		source string
		field  quark.Field // that the term compares
		want   []string
	}{
		{"exit and not exec_failed", engine.FieldPPID, all},
		{"failed", engine.FieldExit, []string{"setuid", "killed"}},
		{"uid == 12345", engine.FieldUIDs, []string{"user"}},
		{"comm != (plain, waiter)", engine.FieldComm, []string{"setuid"}},
		{`exe ~ "/**/set?id"`, engine.FieldExe, []string{"setuid"}},
		{"args == needle", engine.FieldArgs, []string{"argument"}},
		{"environ.QUARK_WHERE ~ y*", engine.FieldEnviron, []string{"variable"}},
		{"exe_flags == set_uid", engine.FieldExeFile, []string{"setuid"}},
		{fmt.Sprintf("exe_dev == %d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), engine.FieldExeFile, all},
		{"exit_code > 2", engine.FieldExit, []string{"setuid"}},
		{"exit_signal == KILL", engine.FieldExit, []string{"killed"}},
		{"duration < 1h", engine.FieldStart, all},
		{"peak_rss > 1G", engine.FieldPeakRSS, nil},
		{"exec_failed_errno == ENOENT", engine.FieldPPID, nil},
	}
	onEach(t, func(t *testing.T, opts quark.Options) {
		where, err := quark.ParseFilter(fmt.Sprintf("tree == %d and (exec_failed or exit and not args == hidden)", os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		opts.Where, opts.FailedExecs, opts.Environ.Names = where, true, []string{"QUARK_WHERE"}
		q := open(t, opts)
		names := make(map[uint32]string)
		for _, c := range children {
			cmd := c.cmd()
			if c.name != "killed" {
				if err := cmd.Run(); c.name != "setuid" && err != nil {
					t.Fatal(c.name, err)
				}
			} else {
				killWaiter(t, cmd)
			}
			names[uint32(cmd.Process.Pid)] = c.name
		}
		missing := exec.Cmd{Path: filepath.Join(filepath.Dir(plain), "missing"), Args: []string{"missing"}}
		if err := missing.Run(); err == nil {
			t.Fatal("a missing program was executed")
		}
		last := spawn(t)
		names[last] = "last"
		var ends, failures []*quark.Event
		var strangers uint64
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		for ev, err := range q.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Process.PID == last && ev.Events.Has(quark.EventExit) {
				break
			}
			switch name := names[ev.Process.PID]; {
			case ev.Events.Has(quark.EventExecFailed):
				failures = append(failures, ev.Clone())
			case name == "" && int(ev.Process.Birth.Parent.PID) == os.Getpid():
				// This is a self-test child, or a process that was to execute the
				// missing program.
			case name == "": // its ancestors are unknown
				strangers++
			case name == "hidden" && isComplete(ev.Process, engine.FieldArgs):
				t.Errorf("got %s of the hidden process, want none", ev.Events)
			case name != "hidden" && name != "last":
				ends = append(ends, ev.Clone())
			}
		}
		if len(ends) != len(all) {
			t.Errorf("got exits of %d processes, want %d", len(ends), len(all))
		}
		for _, c := range classes {
			m := matcher(t, q, c.source)
			for _, ev := range ends {
				name, v := names[ev.Process.PID], m.Judge(ev)
				want := engine.VerdictDrop
				if slices.Contains(c.want, name) {
					want = engine.VerdictPass
				}
				if v != want && (v != engine.VerdictUnsure || isComplete(ev.Process, c.field)) {
					t.Errorf("%s: got verdict %d of %s, want %d: %+v", c.source, v, name, want, ev.Process)
				}
			}
		}
		if reports := q.Capabilities().Kinds[engine.KindExecFailed].Origin != engine.OriginNone; reports != (len(failures) == 1) {
			t.Errorf("got %d failed execs; backend reports them: %v", len(failures), reports)
		}
		for _, ev := range failures {
			if v := matcher(t, q, `exec_failed_errno == ENOENT and exec_failed_path ~ "**/missing"`).Judge(ev); v == engine.VerdictDrop || v == engine.VerdictUnsure && ev.Failed.PathKnown {
				t.Errorf("got verdict %d for %+v", v, ev.Failed)
			}
		}
		if s, err := q.Stats(); err != nil || s.Filtered == 0 || strangers > s.Unsure {
			t.Errorf("got stats %+v, error %v, and %d events from outside the tree, want 0", s, err, strangers)
		}
	})
}

// writePrograms writes a program that ends with 0, a set-id one that ends with 3, and a waiter.
func writePrograms(t *testing.T) (plain, setuid, waiter string) {
	t.Helper()
	dir := t.TempDir()
	plain, setuid, waiter = filepath.Join(dir, "plain"), filepath.Join(dir, "setuid"), filepath.Join(dir, "waiter")
	for _, err := range []error{os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), tinyelf.Write(plain, 0), tinyelf.Write(setuid, 3), tinyelf.WriteWaiter(waiter, 0), os.Chmod(setuid, 0o755|os.ModeSetuid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return plain, setuid, waiter
}

// killWaiter runs a waiter until its execve(2) is complete, and kills it.
func killWaiter(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 1))
	}
	if err == nil {
		err = cmd.Process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

func matcher(t *testing.T, q *quark.Queue, source string) *filter.Matcher {
	t.Helper()
	f, err := filter.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Matcher(q.Clock())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// isComplete reports whether a field is known and not cut.
func isComplete(p *quark.Process, f quark.Field) bool { return (p.Known &^ p.Truncated).Has(f) }

// Open refuses a filter that needs a kind that the backend lacks, unless an alternative is left.
func TestWhereNeedsKindOfBackend(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts.FailedExecs = true
		q := open(t, opts)
		reported := q.Capabilities().Reported().Has(quark.EventExecFailed)
		for source, refused := range map[string]bool{"exec_failed and uid == 0": !reported, "exec_failed or exec": false} {
			f, err := filter.Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			opts.Where = f
			q, err := quark.Open(opts)
			if err == nil {
				q.Close()
			}
			if wrong := new(quark.OptionError); errors.As(err, &wrong) != refused || !refused && err != nil {
				t.Errorf("filter %s: got error %v, want an error %v", source, err, refused)
			}
		}
	})
}
