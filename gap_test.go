//go:build linux && (amd64 || arm64)

package quark_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// tiny makes a backend lose events soon.
func tiny(opts quark.Options) quark.Options {
	opts.EBPF.RingSize, opts.KProbe.RingSize, opts.CNProc.ReceiveBuffer = 1, 1, 1
	return opts
}

// After a loss earlier values are not reported as current: an image whose EXEC was lost is cached,
// and a process whose EXIT was lost is reported as ended.
func TestLossIsToldAndNotBelieved(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts = tiny(opts)
		opts.MinAgg = true
		dir := t.TempDir()
		path := filepath.Join(dir, "waiter")
		var in, out [2]int
		if err := errors.Join(tinyelf.WriteWaiter(path, 0), unix.Pipe(in[:]), unix.Pipe(out[:])); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for _, fd := range append(in[:], out[:]...) {
				unix.Close(fd)
			}
		}()
		changes, change := waiter(t, 0, func(*bare.Script) {}, func(s *bare.Script) {
			s.Call("chdir", unix.SYS_CHDIR, dir).Call("dup3", unix.SYS_DUP3, in[0], 0, 0).Call("dup3", unix.SYS_DUP3, out[1], 1, 0).Exec(path, []string{"waits", "1000"}, nil)
		})
		ends, end := waiter(t, 0, func(*bare.Script) {}, func(s *bare.Script) { s.Exit(0) })
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
		// The FORK of this process is still in the queue when the gap is read.
		young, endYoung := waiter(t, 0, func(*bare.Script) {}, func(s *bare.Script) { s.Exit(0) })
		for range 50 { // nobody reads: the ring is full
			spawn(t)
		}
		change()
		end()
		reap(t, ends)
		endYoung()
		reap(t, young)
		for range 50 {
			spawn(t)
		}
		time.Sleep(100 * time.Millisecond)
		left := map[uint32]bool{uint32(ends): true}
		note := func(ev *quark.Event) {
			switch {
			// On a busy machine its FORK is lost too.
			case ev.Process.PID == uint32(young) && ev.Events == quark.EventFork:
				left[ev.Process.PID] = true
			// An EXIT that was not lost is right, too.
			case ev.Events.Has(quark.EventExit) || ev.Events == quark.EventGone && ev.Process.Exited && ev.Process.Inferred:
				delete(left, ev.Process.PID)
			}
		}
		gap := next("gap", func(ev *quark.Event) bool { note(ev); return ev.Events == quark.EventGap })
		if gap.Gap.From >= gap.Gap.To {
			t.Errorf("got gap %+v", gap.Gap)
		}
		next("GONE of the processes whose EXIT was lost", func(ev *quark.Event) bool { note(ev); return len(left) == 0 })
		unix.Kill(changes, unix.SIGKILL)
		reap(t, changes)
		// On a busy machine this EXIT is lost as well.
		exit := next("end of the other", func(ev *quark.Event) bool {
			return ev.Process.PID == uint32(changes) && ev.Events.Has(quark.EventExit|quark.EventGone)
		})
		p := exit.Process
		for f, lie := range map[quark.Field]bool{
			quark.FieldExe:  p.Image.Exe != path,
			quark.FieldArgs: string(p.Image.Args) != "waits\x001000\x00",
			quark.FieldCwd:  p.Cwd != dir,
			quark.FieldComm: p.Comm != "waiter",
		} {
			if lie && p.Known.Has(f) && !p.Cached.Has(f) {
				t.Errorf("%s is wrong but not cached\n%s", f, exit.AppendDump(nil))
			}
		}
	})
}

// A process that ended before the start, and has not been reaped, does not count as running.
func TestZombieBeforeOpen(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		pid, end := waiter(t, 0, func(*bare.Script) {}, func(s *bare.Script) { s.Exit(0) })
		end()
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		q := open(t, opts)
		reap(t, pid)
		each(t, q, func(ev *quark.Event) bool {
			p := ev.Process
			return ev.Events == quark.EventGone && p.PID == uint32(pid) && p.Exited && p.Inferred
		})
	})
}

// If a pid belonged to another process before a loss, the new process has none of its values.
func TestPidReusedDuringLoss(t *testing.T) {
	onEach(t, func(t *testing.T, opts quark.Options) {
		opts = tiny(opts)
		opts.MinAgg = true
		q := open(t, opts)
		if c := q.Capabilities().Kinds[quark.KindGap]; c.Origin == quark.OriginNone {
			t.Skip(c.Via)
		}
		named := func(s *bare.Script, comm string) *bare.Script {
			return s.Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, comm)
		}
		old, oldGo := waiter(t, 0, func(s *bare.Script) { named(s, "old") }, func(s *bare.Script) { s.Exit(3) })
		pid := uint32(old)
		each(t, q, func(ev *quark.Event) bool {
			return ev.Process.PID == pid && ev.Process.Comm == "old" || ev.Events == quark.EventGap
		})
		oldStart := startOf(t, pid)
		for range 50 { // nobody reads: the ring is full
			spawn(t)
		}
		oldGo()
		reap(t, old)
		time.Sleep(3 * engine.ProcStartUnit)
		between := clock.Monotonic()
		again, newGo := waiter(t, old, func(s *bare.Script) {
			named(s, "new").Call("setresuid", unix.SYS_SETRESUID, 77, 77, 77)
		}, func(s *bare.Script) {
			named(s, "newer").Call("setsid", unix.SYS_SETSID).Exit(7)
		})
		newStart := startOf(t, pid)
		for range 50 {
			spawn(t)
		}
		time.Sleep(100 * time.Millisecond)
		wait := clock.Monotonic()
		went := false
		each(t, q, func(ev *quark.Event) bool {
			p := ev.Process
			if ev.Events == quark.EventGap {
				if went {
					return true // on a busy machine its EXIT can be lost, too
				}
				newGo()
				reap(t, again)
				went = true
			}
			if p.PID != pid || ev.Events&(quark.EventGap|quark.EventGone) != 0 {
				return false
			}
			start := p.Start / uint64(engine.ProcStartUnit)
			lies := []struct {
				field quark.Field
				lie   bool
			}{
				{quark.FieldStart, ev.Time < between && start != oldStart || ev.Time > between && start != newStart},
				{quark.FieldComm, ev.Time > between && p.Comm == "old" || ev.Time > wait && p.Comm != "newer"},
				{quark.FieldUIDs, ev.Time > wait && p.Cred.UID != 77},
				{quark.FieldExit, ev.Time > between && p.Exited && p.Exit.Code() != 7},
			}
			for _, l := range lies {
				if l.lie && p.Known.Has(l.field) && !p.Cached.Has(l.field) {
					t.Errorf("%s is wrong\n%s", l.field, ev.AppendDump(nil))
				}
			}
			return ev.Time > wait && ev.Events.Has(quark.EventExit)
		})
	})
}

// waiter starts a process, with the given pid unless it is 0. The process calls before and waits.
// The returned function lets it call after.
func waiter(t *testing.T, pid int, before, after func(*bare.Script)) (_ int, goOn func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	s := new(bare.Script)
	before(s)
	s.WaitFor(int(r.Fd()))
	after(s)
	p, err := bare.Start(s, bare.Options{PID: pid})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPERM) {
		t.Skipf("clone3 with a pid: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	return p.PID, func() {
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
}

// reap waits for the end of a process.
func reap(t *testing.T, pid int) {
	t.Helper()
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// startOf returns the start time of a process, in units of [engine.ProcStartUnit].
func startOf(t *testing.T, pid uint32) uint64 {
	t.Helper()
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return st.Start / uint64(engine.ProcStartUnit)
}

// each calls f with the events that q delivers until it returns true.
func each(t *testing.T, q *quark.Queue, f func(*quark.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for ev, err := range q.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if f(ev) {
			return
		}
	}
	t.Fatalf("the expected events did not come within %v", deadline)
}
