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
