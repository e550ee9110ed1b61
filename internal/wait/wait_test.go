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
		t.Error("the descriptor is ready before the timer is set")
	}
	SetTimer(timer, clock.Monotonic()+1e6)
	if !ready(t, epoll, 5000) {
		t.Error("the timer did not expire")
	}
	Change(epoll, timer, 0)
	if ready(t, epoll, 0) {
		t.Error("the descriptor is ready by a disabled event")
	}
	Change(epoll, timer, unix.EPOLLIN)
	if !ready(t, epoll, 0) {
		t.Error("the descriptor is not ready by an event that was enabled again")
	}
	SetTimer(timer, 0)
	if ready(t, epoll, 0) {
		t.Error("the descriptor is ready by a disarmed timer")
	}
	if _, err := NewEpoll(timer, timer); err == nil {
		t.Error("added a descriptor twice without an error")
	}
}
