// Package wait creates descriptors for waiting: epoll descriptors and timers.
package wait

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NewEpoll returns an epoll descriptor that polls readable while one of fds does. Negative
// descriptors are ignored.
func NewEpoll(fds ...int) (epoll int, err error) {
	epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create epoll descriptor: %w", err)
	}
	for _, fd := range fds {
		if fd < 0 {
			continue
		}
		if err := Add(epoll, fd); err != nil {
			unix.Close(epoll)
			return -1, err
		}
	}
	return epoll, nil
}

// Add adds a descriptor to an epoll descriptor.
func Add(epoll, fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("add descriptor to epoll: %w", err)
	}
	return nil
}

// Change sets the relevant events of an added descriptor: EPOLLIN, or 0 for errors only.
func Change(epoll, fd int, events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd)}
	unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, fd, &ev) // cannot fail
}

// Timer returns a disarmed timer of CLOCK_MONOTONIC.
func Timer() (fd int, err error) {
	fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("create timer descriptor: %w", err)
	}
	return fd, nil
}

// SetTimer makes a timer expire at a time, or never for 0. It clears an earlier expiry.
func SetTimer(timer int, at uint64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	// The call cannot fail with these arguments.
	unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}
