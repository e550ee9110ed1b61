package cnproc

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/internal/wait"
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
	intervalCount = 20_000_000
	intervalRead  = 1_000_000
	burstRead     = 100
	refillRead    = 5_000_000
)

func newPacer(socket int, enrich source.Enrich) (*pacer, error) {
	p := &pacer{epoll: -1, timer: -1, socket: socket, interval: intervalCount, refill: intervalCount}
	if enrich == EnrichFull {
		p.interval, p.burst, p.refill = intervalRead, burstRead, refillRead
	}
	p.tokens = p.burst
	var err error
	if p.timer, err = wait.Timer(); err != nil {
		return nil, err
	}
	if p.epoll, err = wait.Epoll(socket, p.timer); err != nil {
		p.close()
		return nil, err
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
			// An overrun still wakes: epoll always reports errors.
			wait.Change(p.epoll, p.socket, 0)
		} else {
			wait.Change(p.epoll, p.socket, unix.EPOLLIN)
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
		wait.SetTimer(p.timer, due)
	}
}
