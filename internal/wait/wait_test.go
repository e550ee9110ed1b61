package wait

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

func ready(t *testing.T, fd, ms int) bool {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ms)
		if err != unix.EINTR {
			return n == 1 && err == nil
		}
	}
}

func TestWait(t *testing.T) {
	timer, err := Timer()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(timer)
	epoll, err := NewEpoll(timer)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	if ready(t, epoll, 0) {
		t.Error("ready before the timer is set")
	}
	SetTimer(timer, clock.Monotonic()+1e6)
	if !ready(t, epoll, 5000) {
		t.Error("the timer does not wake")
	}
	Change(epoll, timer, 0)
	if ready(t, epoll, 0) {
		t.Error("ready by what does not count")
	}
	Change(epoll, timer, unix.EPOLLIN)
	if !ready(t, epoll, 0) {
		t.Error("not ready by what counts again")
	}
	SetTimer(timer, 0)
	if ready(t, epoll, 0) {
		t.Error("ready by a timer that is off")
	}
	if _, err := NewEpoll(timer, timer); err == nil {
		t.Error("one descriptor twice")
	}
}
