package exitsnoop

import (
	"errors"
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	for in, want := range map[string]stat{
		"1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 1 2\n":         {'S', 4194560, 77},
		"1 (a) Z) (\n) Z 0 1 1 0 -1 4194564 1 2 3 4 5 6 7 8 20 0 1 0 78 1 2\n": {'Z', 4194564, 78},
	} {
		got, ok := parseStat([]byte(in))
		if !ok || got != want {
			t.Errorf("%q: %+v %v", in, got, ok)
		}
	}
	for _, in := range []string{"", ")", "1 (a", "1 (a) S 1 2 3", "1 (a) S 0 1 1 0 -1 x 1 2 3 4 5 6 7 8 20 0 1 0 77"} {
		if got, ok := parseStat([]byte(in)); ok {
			t.Errorf("%q: %+v", in, got)
		}
	}
	own, err := readStat("/proc/self/stat")
	if err != nil || own.exiting() || own.start == 0 {
		t.Errorf("own: %+v %v", own, err)
	}
}

func FuzzParseStat(f *testing.F) {
	own, _ := os.ReadFile("/proc/self/stat")
	f.Add(own)
	f.Add([]byte("1 (a) Z) (\n) Z 0 1 1 0 -1 4194564 1 2 3 4 5 6 7 8 20 0 1 0 78 1 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := parseStat(b); !ok && st.exiting() && st.state == 0 {
			t.Error("flags without a state")
		}
	})
}

func TestClock(t *testing.T) {
	for in, want := range map[string]clock{
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
	if from, to := clock(10e9).span(1100); from != 1e9 || to != 1e9+tick {
		t.Errorf("span %d to %d", from, to)
	}
	if from, _ := clock(-10e9).span(100); from != 11e9 {
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
