//go:build linux && (amd64 || arm64)

package quark_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/quark-linux/quark"
)

// tiny makes a backend lose events soon.
func tiny(opts quark.Options) quark.Options {
	opts.EBPF.RingSize, opts.KProbe.RingSize, opts.CNProc.ReceiveBuffer = 1, 1, 1
	return opts
}

// shell is a shell that runs the lines it is sent.
type shell struct {
	*exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

func newShell(t *testing.T) *shell {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skipf("needs a shell, which a guest has not: %v", err)
	}
	s := &shell{Cmd: exec.Command("sh")}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Process.Kill()
		s.Wait()
	})
	s.run(t, "cd /")
	return s
}

// run lets the shell execute a line and waits until it has.
func (s *shell) run(t *testing.T, line string) {
	t.Helper()
	fmt.Fprintln(s.in, line+"; echo done")
	if _, err := s.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func (s *shell) pid() uint32 { return uint32(s.Process.Pid) }

// After a loss nothing of before is said to be true: an image whose EXEC was lost is
// carried, and a process whose EXIT was lost is found to be gone.
func TestLossIsToldAndNotBelieved(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts = tiny(opts)
		opts.MinAgg = true
		changes, ends := newShell(t), newShell(t)
		q := open(t, opts)
		if c := q.Capabilities().Kinds[quark.KindGap]; c.Origin == quark.OriginNone {
			t.Skip(c.Via)
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		next := func(what string, is func(*quark.Event) bool) *quark.Event {
			t.Helper()
			for ev, err := range q.Events(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				if is(ev) {
					return ev.Clone()
				}
			}
			t.Fatalf("no %s within %v", what, deadline)
			return nil
		}
		for range 50 { // nobody reads: the ring is full
			spawn(t)
		}
		fmt.Fprintln(changes.in, "cd /tmp; exec sleep 1000")
		ends.Process.Kill()
		ends.Wait()
		for range 50 {
			spawn(t)
		}
		time.Sleep(100 * time.Millisecond)
		gap := next("gap", func(ev *quark.Event) bool { return ev.Events == quark.EventGap })
		if gap.Gap.From >= gap.Gap.To {
			t.Errorf("gap %+v", gap.Gap)
		}
		gone := false
		next("GONE of the process whose EXIT was lost", func(ev *quark.Event) bool {
			if ev.Process.PID == ends.pid() && ev.Events.Has(quark.EventExit) {
				gone = true // not lost
			}
			return gone || ev.Process.PID == ends.pid() && ev.Events == quark.EventGone && ev.Process.Exited && ev.Process.Inferred
		})
		changes.Process.Kill()
		end := next("EXIT of the other", func(ev *quark.Event) bool {
			return ev.Process.PID == changes.pid() && ev.Events.Has(quark.EventExit)
		})
		p := end.Process
		for f, lie := range map[quark.Field]bool{
			quark.FieldFilename: p.Filename != "/usr/bin/sleep" && p.Filename != "/bin/sleep",
			quark.FieldCmdline:  string(p.Cmdline) != "sleep\x001000\x00",
			quark.FieldCwd:      p.Cwd != "/tmp",
			quark.FieldComm:     p.Comm != "sleep",
		} {
			if lie && p.Known.Has(f) && !p.Carried.Has(f) {
				t.Errorf("%s is not carried and wrong\n%s", f, end.AppendDump(nil))
			}
		}
	})
}
