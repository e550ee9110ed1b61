package cnproc

import (
	"os/exec"
	"slices"
	"testing"
	"time"

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
