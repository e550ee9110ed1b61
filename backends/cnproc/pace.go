package cnproc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pacer provides the descriptor that callers wait on. A wake-up costs as much CPU time as many
// messages, so under load the descriptor wakes at intervals instead of for each message. It is an
// epoll descriptor of the socket and a timer. Under load only the timer wakes; otherwise the
// socket does, and the timer when the source has work due.
type pacer struct {
	epoll, timer int
	socket       int
	interval     uint64 // ns between wake-ups under load
	// A token bucket: each wake-up takes a token, and while there are tokens every message
	// wakes.
	burst, tokens uint64
	refill        uint64 // ns per new token
	last          uint64 // time of the last refill
	timing        bool   // only the timer wakes, not the socket
	due           uint64 // expiry of the timer, 0 if it is off
}

// Counting alone can wait. Reading /proc can't: a short-lived process takes about a millisecond
// from exec to exit. A shorter interval would read more of the processes under load but cost more
// for each. Up to some hundred messages per second, every message wakes.
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

// arm prepares the next wait. busy means that messages arrived since the last wait and that further
// ones may be delayed. due is the time at which the source has work even without messages, 0 for
// none.
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
			p.watch(0) // an overrun still wakes: epoll always reports socket errors
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
	if due != p.due {
		p.due = due
		p.set(due)
	}
}

// set sets the timer to a time; 0 turns it off. Either makes an expired timer unreadable again.
func (p *pacer) set(time uint64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(time))}
	// It cannot fail with these arguments.
	unix.TimerfdSettime(p.timer, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// watch selects the events of the socket that wake.
func (p *pacer) watch(events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(p.socket)}
	unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, p.socket, &ev)
}
