package cnproc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pacer makes the descriptor that callers wait on. A wake-up costs as much as
// many messages, so under load it wakes at intervals instead of for each message. It is an
// epoll of the socket and of a timer: under load of the timer alone, else of the socket
// and, if the source has something to do at a time, of the timer.
type pacer struct {
	epoll, timer int
	socket       int
	interval     uint64 // ns between wake-ups under load
	// Each wake-up takes a token; while there are some, every message wakes.
	burst, tokens uint64
	refill        uint64 // ns that make a token
	last          uint64 // when tokens were made last
	timing        bool   // the timer is in use in place of the socket
	due           uint64 // what the timer is set to, 0 for nothing
}

// Counting can wait. Reading of /proc has to come in time: a short-lived process
// takes about a millisecond from exec to exit, so a shorter interval would know
// more of the processes under load and cost more for each. At some hundred
// messages a second or less every one wakes.
const (
	intervalCount = 10_000_000
	intervalRead  = 1_000_000
	burstRead     = 100
	refillRead    = 5_000_000
)

func newPacer(socket int, enrich Enrich) (*pacer, error) {
	p := &pacer{epoll: -1, timer: -1, socket: socket, interval: intervalCount, refill: intervalCount}
	if enrich == EnrichFull {
		p.interval, p.burst, p.refill = intervalRead, burstRead, refillRead
	}
	p.tokens = p.burst
	var err error
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll descriptor: %w", err)
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		p.close()
		return nil, fmt.Errorf("make a timer descriptor: %w", err)
	}
	for _, fd := range []int{socket, p.timer} {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			p.close()
			return nil, fmt.Errorf("watch a descriptor: %w", err)
		}
	}
	return p, nil
}

func (p *pacer) close() {
	for _, fd := range []*int{&p.epoll, &p.timer} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// arm prepares the next wait. busy says that there were messages since the last one and
// that more of them can wait; due is when the source has something to do even if there
// are none, 0 for never.
func (p *pacer) arm(busy bool, due, now uint64) {
	if busy {
		if made := (now - p.last) / p.refill; made > 0 {
			p.tokens = min(p.burst, p.tokens+made)
			p.last = now
		}
		if p.tokens > 0 {
			p.tokens--
			busy = false
		}
	}
	if busy != p.timing {
		p.timing = busy
		if busy {
			p.watch(0) // an overrun still wakes, as an error of the socket
		} else {
			p.watch(unix.EPOLLIN)
		}
	}
	switch {
	case busy:
		due = now + p.interval
	case due != 0:
		due = max(due, now+1)
	}
	// A timer that went off, or would go off too early, is to be set again.
	if due != p.due {
		p.due = due
		p.set(due)
	}
}

// set sets the timer to a time, or ends it with 0. That takes back that it is readable.
func (p *pacer) set(time uint64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(time))}
	// cannot fail with these arguments
	unix.TimerfdSettime(p.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

func (p *pacer) watch(events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(p.socket)}
	unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, p.socket, &ev)
}
