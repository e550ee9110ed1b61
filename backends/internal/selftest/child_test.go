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
		if err == nil { // the error is for the descriptor of the directory itself
			open = append(open, d.Name()+" "+link)
		}
	}
	return strings.Join(open, "\n")
}

func startedChild(t *testing.T) *testChild {
	t.Helper()
	w, err := startTestChild()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.begin(limit); err != nil {
		w.end()
		t.Fatal(err)
	}
	return w
}

// TestChild ends the self-test child in two ways: after its exit, and in the middle.
func TestChild(t *testing.T) {
	descriptors(t) // the first call opens descriptors that are never closed
	for _, whole := range []bool{true, false} {
		before := descriptors(t)
		w := startedChild(t)
		pid := w.cmd.Process.Pid
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || exe != "/memfd:"+programName+" (deleted)" {
			t.Errorf("got executable %s, error %v", exe, err)
		}
		if whole {
			w.release()
			if status, err := w.status(); err != nil || !status.Exited() || status.ExitStatus() != exitCode {
				t.Errorf("got status %#x, error %v", status, err)
			}
		}
		w.end()
		if err := unix.Kill(pid, 0); err == nil {
			t.Errorf("process %d still exists", pid)
		}
		if after := descriptors(t); after != before {
			t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
		}
	}
}

func TestChildCannotBegin(t *testing.T) {
	w := startedChild(t)
	defer w.end()
	if err := w.begin(20 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("child that writes nothing: got error %v", err)
	}
	unix.Kill(w.cmd.Process.Pid, unix.SIGKILL)
	if err := w.begin(limit); err == nil || !strings.Contains(err.Error(), "memfd_noexec") {
		t.Errorf("child that exited: got error %v", err)
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
	w := startedChild(t)
	defer w.end()
	pid := uint32(w.cmd.Process.Pid)
	if err := truth.readTestChild(proc, pid); err != nil {
		t.Fatal(err)
	}
	// The values that the parent has set for the child equal the values in /proc.
	var again engine.RawEvent
	if _, err := proc.Read(pid, proc.Readable(), &again); err != nil {
		t.Fatal(err)
	}
	again.Kind, again.PID, again.TID = engine.KindExec, pid, pid
	if wrong := compare(&again, &truth.exec, new(engine.CapabilityTable)); wrong != nil {
		t.Error(wrong)
	}
	if got := string(again.Bytes(engine.FieldCwd)); got != workDir() {
		t.Errorf("got cwd %s, want %s", got, workDir())
	}
	if int(truth.fork.Task.PGID) != unix.Getpgrp() || truth.exec.Task.PGID != pid {
		t.Errorf("got process group %d at FORK, %d at EXEC", truth.fork.Task.PGID, truth.exec.Task.PGID)
	}
	if _, err := os.Stat("/dev/pts/ptmx"); err == nil && again.Task.TTY == (engine.TTY{}) {
		t.Error("the child has no terminal")
	}
}
