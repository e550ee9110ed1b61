package cnproc

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// Where only failures come: a process that fails while one of its threads ends with status 0, which
// no message tells of, is reported once. A thread of io_uring ends so, and mostly as the last one.
func TestFailureWithThreadThatSucceeds(t *testing.T) {
	s := kernel(t, Options{}, source.Options{Kinds: engine.EventExit, Exits: source.ExitsNonzero})
	to := &sink{room: 1 << 20}
	for range 20 {
		cmd := conform.Child("uring")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ends := func() (n int) {
			for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindExit) {
				if !ev.Thread {
					n++
				}
			}
			return n
		}
		watch(t, s, to, func() bool { return ends() > 0 }) // while it ends
		if cmd.Wait(); cmd.ProcessState.ExitCode() == noUring {
			t.Skip("the kernel has no io_uring, or refuses it")
		}
		i := slices.IndexFunc(to.events, func(ev *engine.RawEvent) bool { return int(ev.PID) == cmd.Process.Pid && !ev.Thread })
		if x := &to.events[i].Task; x.Known.Has(engine.FieldExit) && x.Exit.WaitStatus != 17<<8 {
			t.Errorf("wait status %#x, want %#x or unknown", x.Exit.WaitStatus, 17<<8)
		}
		time.Sleep(5 * time.Millisecond) // nothing more may come
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		if n := ends(); n != 1 {
			t.Errorf("%d ends of a process", n)
		}
	}
}

// Where only failures come: a thread that fails, also a leader, is no failure of a process that
// goes on and succeeds. Where the kernel does not tell, its end has no status.
func TestThreadFailsAndProcessSucceeds(t *testing.T) {
	s := kernel(t, Options{}, source.Options{Kinds: engine.EventExit, Exits: source.ExitsNonzero})
	to := &sink{room: 1 << 20}
	for _, program := range []string{"leader-fails", "thread-fails"} {
		cmd := conform.Child(program)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan *exec.Cmd)
		go func() { cmd.Wait(); done <- cmd }()
		watch(t, s, to, func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		if !cmd.ProcessState.Success() {
			t.Fatalf("%s: %v", program, cmd.ProcessState)
		}
		// The end is looked for within the second that the looks are apart at most.
		last := now() + 2*probeLast
		watch(t, s, to, func() bool { return len(s.track.untold) == 0 || now() > last })
		for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindExit) {
			// Before Linux 6.0 what failed can have decided: see groupstatus.Endings.
			unsure := !s.track.groups.last6 && !ev.Task.Known.Has(engine.FieldExit)
			if !ev.Thread && !unsure {
				t.Errorf("%s: an end with status %#x, known fields %v", program, ev.Task.Exit.WaitStatus, ev.Task.Known)
			}
		}
		if n := len(s.track.untold); n != 0 {
			t.Errorf("%s: %d processes are still watched", program, n)
		}
	}
}

// Where only failures come: a process that was over when the message of its first thread was read
// ended with the last one.
func TestEndAfterFailureOfThread(t *testing.T) {
	s := kernel(t, Options{}, source.Options{Kinds: engine.EventExit, Exits: source.ExitsNonzero})
	for _, late := range []bool{true, false} {
		for range 20 {
			to := &sink{room: 1 << 20}
			cmd := conform.Child("thread-fails-first")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if late {
				cmd.Wait()
			}
			watch(t, s, to, func() bool {
				return slices.ContainsFunc(to.events.Of(cmd.Process.Pid, engine.KindExit), func(ev *engine.RawEvent) bool { return !ev.Thread })
			})
			last := now() + 2*leaderWait
			watch(t, s, to, func() bool { return now() > last })
			if !late {
				cmd.Wait()
			}
			ends := 0
			for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindExit) {
				if x := &ev.Task; !ev.Thread {
					ends++
					// With all messages the status of such a mix is unknown.
					if known := x.Known.Has(engine.FieldExit); known && x.Exit.WaitStatus != 7<<8 || !known && s.track.failures {
						t.Errorf("read late %v: wait status %#x", late, x.Exit.WaitStatus)
					}
				}
			}
			if ends != 1 {
				t.Errorf("read late %v: %d ends of a process", late, ends)
			}
		}
	}
}

// inTurns is a view of a process that is over from a time on.
type inTurns struct {
	oneThread
	now, over uint64
}

func (v *inTurns) Status(uint32) (procfs.Status, uint64, error) {
	if v.now >= v.over {
		return procfs.Status{}, 0, procfs.ErrVanished
	}
	return procfs.Status{State: 'S', Threads: 2}, 0, nil
}

// Where only failures come: in each order of looks and messages, of the first thread with 3 and
// of the second with 7, there is one end. One that may be of another process is lost.
func TestFailuresInAllOrders(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name    string
		over    uint64   // when /proc shows nothing any more
		read    []uint64 // when the messages are read, of the thread first
		sent    []uint64
		leader  bool // the first message is the leader's
		between bool // the socket is empty between them
		want    string
	}{
		{name: "both read late", over: 5 * ms, read: []uint64{6 * ms, 6 * ms}, sent: []uint64{1 * ms, 5 * ms}, want: "thread 3, end 7 at 5 ms"},
		{name: "the leader's sent late", over: 5 * ms, read: []uint64{6 * ms, 9 * ms}, sent: []uint64{1 * ms, 7 * ms}, between: true, want: "thread 3, end 7 at 7 ms"},
		{name: "seen to run, then over", over: 5 * ms, read: []uint64{2 * ms, 9 * ms}, sent: []uint64{1 * ms, 7 * ms}, between: true, want: "thread 3, end 7 at 7 ms"},
		{name: "the leader first", over: 5 * ms, read: []uint64{6 * ms, 6 * ms}, sent: []uint64{1 * ms, 5 * ms}, leader: true, want: "thread 3, thread 7, end 7 at 5 ms"},
		{name: "of another CPU", over: 5 * ms, read: []uint64{6 * ms, 6 * ms}, sent: []uint64{5 * ms, 4 * ms}, want: "thread 3, thread 7, end 3 at 5 ms"},
		{name: "alone", over: 5 * ms, read: []uint64{6 * ms}, sent: []uint64{1 * ms}, want: "thread 3, end 3 at 1 ms"},
		{name: "too late to be its own", over: 5 * ms, read: []uint64{6 * ms, 90 * ms}, sent: []uint64{1 * ms, 80 * ms}, between: true, want: "thread 3, end 3 at 1 ms, gap at 80 ms"},
	} {
		var got []string
		v := &inTurns{over: c.over}
		tr := newTracker(v, &bootClock{test: func() uint64 { return v.now }}, new(loss), true, func(f *fact) {
			switch {
			case f.kind == engine.KindGap:
				got = append(got, fmt.Sprintf("gap at %d ms", f.gap.From/ms))
			case f.thread:
				got = append(got, fmt.Sprintf("thread %d", f.status>>8))
			default:
				got = append(got, fmt.Sprintf("end %d at %d ms", f.status>>8, f.m.time/ms))
			}
		})
		tr.failures = true
		for i, at := range c.read {
			m := message{what: Exit, pid: 10, tid: 11, status: 3 << 8, time: c.sent[i]}
			if (i == 1) != c.leader {
				m.tid = 10
			}
			if i == 1 {
				m.status = 7 << 8
			}
			v.now = at
			tr.take(&m)
			if c.between {
				for ; v.now < at+2*leaderWait && (i+1 == len(c.read) || v.now < c.read[i+1]); v.now += ms {
					tr.look()
				}
			}
		}
		v.now += 2 * leaderWait
		tr.look()
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}
