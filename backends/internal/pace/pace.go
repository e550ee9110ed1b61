package pace

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// Options set how often a Pacer wakes under load.
type Options struct {
	Interval uint64 // ns between wake-ups under load

	// Burst and Refill define a token bucket. Each wake-up takes a token, and every event wakes
	// while tokens are left. Burst is the capacity in tokens, Refill the time in ns per new
	// token. If Burst is 0, every event under load waits.
	Burst, Refill uint64
}

// Reading is for sources that read /proc. They must wake soon, because a short-lived process exits
// about a millisecond after its exec. A shorter interval would read more such processes, at a
// higher cost. Up to some hundred events per second, every event wakes.
var Reading = Options{Interval: 1_000_000, Burst: 100, Refill: 5_000_000}

// Counting is for sources with events that can wait.
var Counting = Options{Interval: 20_000_000, Refill: 20_000_000}

// Pacer is the descriptor that callers wait on. The zero value is for tests that do not wait.
type Pacer struct {
	o                   Options
	epoll, timer, event int
	tokens              uint64
	last                uint64 // time of the last refill
	timed               bool   // only the timer wakes
	due                 uint64 // expiry of the timer, 0 if it is off
}

// New returns a Pacer for a descriptor that polls readable if events are queued.
func New(o Options, event int) (*Pacer, error) {
	p := &Pacer{o: o, epoll: -1, timer: -1, event: event, tokens: o.Burst}
	var err error
	if p.timer, err = wait.Timer(); err == nil {
		p.epoll, err = wait.NewEpoll(p.timer, event)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// FD is the descriptor to wait on.
func (p *Pacer) FD() int { return p.epoll }

// Close closes the Pacer's descriptors, but not the event's.
func (p *Pacer) Close() {
	for _, fd := range []*int{&p.epoll, &p.timer} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// Arm prepares the next wait. busy means that events came since the last wait, and that further
// events may be delayed. due is the time at which the source has work even without events, or 0.
func (p *Pacer) Arm(busy bool, due, now uint64) {
	if busy {
		if made := (now - p.last) / p.o.Refill; made > 0 {
			p.tokens = min(p.o.Burst, p.tokens+made)
			p.last = now
		}
		if p.tokens > 0 {
			p.tokens--
			busy = false
		}
	}
	if busy != p.timed {
		p.timed = busy
		var signal uint32 = unix.EPOLLIN
		if busy {
			// An overrun of a socket still wakes: epoll always reports errors.
			signal = 0
		}
		wait.Change(p.epoll, p.event, signal)
	}
	switch {
	case busy:
		due = now + p.o.Interval
	case due != 0:
		due = max(due, now+1)
	}
	if due != p.due {
		p.due = due
		wait.SetTimer(p.timer, due)
	}
}
