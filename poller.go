package quark

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// poller waits for the source, for Wake and, where the user polls the
// descriptor himself, for a timer.
type poller struct {
	mu                  sync.Mutex // guards event against Wake during close
	epoll, event, timer int
	opened              bool
	watched             bool // the user polls the descriptor: timers have to be set
}

func (p *poller) open(source int) (err error) {
	p.epoll, p.event, p.timer = -1, -1, -1
	p.opened = true
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create epoll descriptor: %w", err)
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create event descriptor: %w", err)
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("create timer descriptor: %w", err)
	}
	for _, fd := range []int{p.event, p.timer, source} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("add descriptor to epoll: %w", err)
		}
	}
	return nil
}

func (p *poller) close() error {
	if !p.opened {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range []int{p.timer, p.event, p.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	p.epoll, p.event, p.timer = -1, -1, -1
	return nil
}

// arm sets the timer to go off after wait, or turns it off.
func (p *poller) arm(wait time.Duration, ok bool) error {
	var spec unix.ItimerSpec
	if ok {
		spec.Value = unix.NsecToTimespec(int64(max(wait, 1)))
	}
	if err := unix.TimerfdSettime(p.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	p.clear()
	return nil
}

// clear takes back a Wake that has been heard.
func (p *poller) clear() {
	var b [8]byte
	unix.Read(p.event, b[:])
}

// wait sleeps until something happens or the time is over.
func (p *poller) wait(timeout time.Duration) error {
	msec := -1
	if timeout >= 0 {
		// Rounded up: waking too early would only mean to wait again.
		msec = int(min((timeout+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	var events [4]unix.EpollEvent
	n, err := unix.EpollWait(p.epoll, events[:], msec)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for events: %w", err)
	}
	for i := range max(n, 0) {
		if events[i].Fd == int32(p.event) {
			p.clear()
		}
	}
	return nil
}

func (p *poller) wake() {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	unix.Write(p.event, b[:]) // a full counter wakes as well; after close there is no one to wake
}
