package cnproc

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/procfs"
)

// TestForkOfSessionLeader reads a process between its setsid(2) and the message of
// that.
func TestForkOfSessionLeader(t *testing.T) {
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	proc, err := procfs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	e := enricher{proc: proc, clock: newClock()}
	for kind, want := range map[engine.Kind]engine.Fields{engine.KindFork: 0, engine.KindExec: ofSession} {
		ev := &engine.RawEvent{Kind: kind, PID: uint32(c.Process.Pid), Time: e.clock.now()}
		e.read(&held{ev: ev, want: ofSession | engine.FieldPPID.Set()})
		if known := ev.Task.Known; known&ofSession != want || !known.Has(engine.FieldPPID) {
			t.Errorf("%v: %v is known", kind, known)
		}
	}
}

// TestDoubt lets an exec follow another that was read.
func TestDoubt(t *testing.T) {
	const read = 5_000_000
	for _, c := range []struct {
		name   string
		memory uint64 // that the next one was read in, if it was
		known  engine.Fields
		after  uint64 // ns from the reading to the next one's message
		want   bool   // the image stays known
	}{
		{"another image", 8, procfs.Image, 1, true},
		{"the next one's image", 7, procfs.Image, 1, false},
		{"the next one's image, read long before its message", 7, procfs.Image, 100 * unsure, false},
		{"the image after the next", 8, 0, 1, false},
		{"nothing is seen of the next", 0, 0, 1, false},
		{"nothing is seen of the next, which came long after", 0, 0, unsure + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := engine.NewBuffer(2)
			e := enricher{byPID: map[uint32]int32{}, clock: newClock()}
			exec := func(time, memory uint64, known engine.Fields) *engine.RawEvent {
				ev := b.Reserve()
				ev.Kind, ev.PID, ev.Time, ev.Task.Known = engine.KindExec, 1, time, known
				ev.Seen.Time, ev.Seen.Memory = read, memory
				e.add(ev, 0)
				e.flush(b)
				return ev
			}
			first := exec(1, 7, procfs.Readable)
			exec(read+c.after, c.memory, c.known)
			if got := first.Task.Known.Has(engine.FieldFilename); got != c.want {
				t.Errorf("the image is known: %v, want %v", got, c.want)
			}
			if !first.Task.Known.Has(engine.FieldCwd) {
				t.Error("what an exec does not change is unknown")
			}
		})
	}
}
