package exitsnoop

import (
	"errors"
	"testing"

	"github.com/quark-linux/quark/internal/proctext"
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

// No two errors match each other for errors.Is.
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
