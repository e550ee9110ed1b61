package selftest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

func descriptors(t *testing.T) string {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, d := range dir {
		link, err := os.Readlink("/proc/self/fd/" + d.Name())
		if err == nil { // else it is the directory's own descriptor
			open = append(open, d.Name()+" "+link)
		}
	}
	return strings.Join(open, "\n")
}

func begun(t *testing.T) *witness {
	t.Helper()
	w, err := startWitness()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.begin(limit); err != nil {
		w.end()
		t.Fatal(err)
	}
	return w
}

func TestWitness(t *testing.T) {
	descriptors(t) // the first look opens some that stay
	before := descriptors(t)
	w := begun(t)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", w.cmd.Process.Pid))
	if err != nil || exe != "/memfd:"+programName+" (deleted)" {
		t.Errorf("it executes %s, %v", exe, err)
	}
	w.letGo()
	pid := w.cmd.Process.Pid
	if status, err := w.status(); err != nil || !status.Exited() || status.ExitStatus() != exitCode {
		t.Errorf("status %#x, %v", status, err)
	}
	w.end()
	if err := unix.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
	if after := descriptors(t); after != before {
		t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
	}
}

// TestWitnessIsEnded ends the witness half way.
func TestWitnessIsEnded(t *testing.T) {
	before := descriptors(t)
	w := begun(t)
	pid := w.cmd.Process.Pid
	w.end()
	if err := unix.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
	if after := descriptors(t); after != before {
		t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
	}
}

func TestWitnessCannotBegin(t *testing.T) {
	w := begun(t)
	defer w.end()
	if err := w.begin(20 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not begin") {
		t.Errorf("error %v of one that writes nothing", err)
	}
	unix.Kill(w.cmd.Process.Pid, unix.SIGKILL)
	if err := w.begin(limit); err == nil || !strings.Contains(err.Error(), "memfd_noexec") {
		t.Errorf("error %v of one that ended", err)
	}
}

func TestTruths(t *testing.T) {
	proc, err := procfs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var truth truths
	if err := truth.readCreator(proc); err != nil {
		t.Fatal(err)
	}
	w := begun(t)
	defer w.end()
	pid := uint32(w.cmd.Process.Pid)
	if err := truth.readWitness(proc, pid); err != nil {
		t.Fatal(err)
	}
	// The parent's values for itself and the child are the same as in /proc.
	var again engine.RawEvent
	if _, err := proc.Read(pid, proc.Readable(), &again); err != nil {
		t.Fatal(err)
	}
	again.Kind, again.PID, again.TID = engine.KindExec, pid, pid
	if wrong := compare(&again, &truth.exec, new(engine.CapabilityTable)); wrong != nil {
		t.Error(wrong)
	}
	if got := string(again.Bytes(engine.FieldCwd)); got != workDir() {
		t.Errorf("cwd is %s, want %s", got, workDir())
	}
	if int(truth.fork.Task.PGID) != unix.Getpgrp() || truth.exec.Task.PGID != pid {
		t.Errorf("process group %d at FORK, %d at EXEC", truth.fork.Task.PGID, truth.exec.Task.PGID)
	}
	if _, err := os.Stat("/dev/pts/ptmx"); err == nil && again.Task.TTY == (engine.TTY{}) {
		t.Error("it has no terminal")
	}
}
