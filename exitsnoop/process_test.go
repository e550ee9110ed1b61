package exitsnoop

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/refuse"
)

func TestClock(t *testing.T) {
	for in, want := range map[string]bootOffset{
		"monotonic           0         0\nboottime           10         5\n": 10e9 + 5,
		"1 0 0\n7 -3 1\n":   -3e9 + 1,
		"":                  0,
		"boottime x y\n":    0,
		"boottime 1\n":      0,
		"monotonic 5 5\n":   0,
		"boottime  -1  0\n": -1e9,
	} {
		if got := parseOffsets(in); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
	if from, to := bootOffset(10e9).span(1100 * proctext.Tick); from != 1e9 || to != 1e9+proctext.Tick {
		t.Errorf("span %d to %d", from, to)
	}
	if from, _ := bootOffset(-10e9).span(100 * proctext.Tick); from != 11e9 {
		t.Errorf("span from %d", from)
	}
}

func TestDeviceNumbers(t *testing.T) {
	for user, kernel := range map[uint64]uint64{
		4: 4, 0x1000ff: 0x1ff, 0x801: 8<<20 | 1, // minor 511 is split in user space
	} {
		if got := kernelDev(user); got != kernel {
			t.Errorf("kernelDev(%#x) is %#x, want %#x", user, got, kernel)
		}
		if got := userDev(kernel); got != user {
			t.Errorf("userDev(%#x) is %#x, want %#x", kernel, got, user)
		}
	}
}

// No two errors are the same for errors.Is.
func TestErrorsDiffer(t *testing.T) {
	all := []error{ErrNotRunning, ErrFull, ErrAlreadyTraced, ErrDuplicateID, ErrNotTraced, ErrNotEnded, ErrNoProcess,
		ErrBadPid, ErrNamespace, ErrLost, ErrLocked, ErrNotDirectory, ErrNoBPFFS, ErrReadOnly, ErrForeign, ErrShape,
		ErrNewerVersion, ErrUnsupported, ErrPermission}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(withTraceID(1, a), b) != (i == j) {
				t.Errorf("%v is %v: %v", a, b, i != j)
			}
		}
	}
}

// Without pidfds all is as with them.
func TestWithoutPidfds(t *testing.T) {
	if os.Getenv(refuse.Env) != "" {
		t.Skip("calls are refused")
	}
	needKernel(t)
	c := exec.Command("/proc/self/exe", "-test.run=^Test(Exit|ExecNonleader|BadInput|Reuse|WaitEnds|NewTraceOnce|Events|Directory|TreeOfDaemon|TreeEvents)$")
	c.Env = append(os.Environ(), refuse.Env+"=pidfd_open")
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "filter system calls") {
		t.Skip(string(out)) // built without seccomp
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The directory in /proc stands for a process, and tells of its end as a pidfd does.
func TestDirectory(t *testing.T) {
	stay := pipe(t)
	p := start(t, new(barefork.Script).Thread(new(barefork.Script).WaitFor(stay.r)).ExitThread(0))
	d, err := openDirectory(uint32(p.PID))
	ok(t, err)
	defer d.close()
	awaitZombie(t, d.pid)
	if d.ended() {
		t.Error("it has ended, with a living thread")
	}
	if _, err := openDirectory(uint32(p.Thread(1))); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a thread is a process: %v", err)
	}
	stay.open(t)
	if !d.endsWithin(soon) {
		t.Error("it has not ended")
	}
	reap(t, d.pid)
	if !d.ended() {
		t.Error("it has not ended, and is not there any more")
	}
	if _, err := openDirectory(uint32(p.PID)); !errors.Is(err, ErrNoProcess) {
		t.Errorf("a process that is not there: %v", err)
	}
}
