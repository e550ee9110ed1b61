package pace

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

// readable reports whether a descriptor becomes readable within ms milliseconds.
func readable(t *testing.T, fd, ms int) bool {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, ms)
	for err == unix.EINTR {
		n, err = unix.Poll(fds, ms)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// With tokens left, an event makes the descriptor readable at once; without tokens only after the
// interval. Due work always makes it readable.
func TestPacer(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer func() { unix.Close(pipe[0]); unix.Close(pipe[1]) }()
	p, err := New(Options{Interval: 300_000_000, Burst: 1, Refill: 1 << 62}, pipe[0])
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Arm(false, 0, clock.Monotonic()); readable(t, p.FD(), 0) {
		t.Error("got a wake-up without an event")
	}
	unix.Write(pipe[1], []byte("x"))
	if !readable(t, p.FD(), 0) {
		t.Error("got no wake-up for an event")
	}
	if p.Arm(true, 0, clock.Monotonic()); p.timed || !readable(t, p.FD(), 0) {
		t.Error("got no wake-up for an event while tokens are left")
	}
	began := clock.Monotonic()
	if p.Arm(true, 0, began); !p.timed || readable(t, p.FD(), 0) && clock.Monotonic() < began+p.o.Interval {
		t.Error("got a wake-up for an event without a token")
	}
	if !readable(t, p.FD(), 5000) || clock.Monotonic() < began+p.o.Interval {
		t.Error("got no wake-up after the interval, or too early")
	}
	if p.Arm(false, 0, clock.Monotonic()); p.timed || !readable(t, p.FD(), 0) {
		t.Error("got no wake-up for an event while not busy")
	}
	// Due work makes the descriptor readable even without events.
	unix.Read(pipe[0], make([]byte, 1))
	began = clock.Monotonic()
	p.Arm(false, began+50_000_000, began)
	if !readable(t, p.FD(), 5000) || clock.Monotonic() < began+50_000_000 {
		t.Error("got no wake-up for due work, or too early")
	}
}
