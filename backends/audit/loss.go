package audit

import (
	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/engine"
)

// serials finds the numbers that are missing: each is an event of which nothing has come. Numbers
// come nearly in order.
type serials struct {
	next   uint32
	begun  bool
	at     uint64            // when the latest came
	missed map[uint32]uint64 // and when that was first seen
	lost   uint64
}

// maxHole is more than what is lost at once: a number that is further is of another count.
const maxHole = 1 << 20

// saw notes a number.
func (s *serials) saw(n uint32, now uint64) {
	if !s.begun {
		s.begun, s.next = true, n
	}
	switch ahead := int32(n - s.next); {
	case ahead < 0:
		delete(s.missed, n)
		return
	case ahead > maxHole:
		clear(s.missed)
	default:
		for ; s.next != n; s.next++ {
			s.missed[s.next] = now
		}
	}
	s.next, s.at = n+1, now
}

// settle returns how many numbers are missing since a time or longer, and forgets them.
func (s *serials) settle(until uint64) (n uint64) {
	for serial, since := range s.missed {
		if since <= until {
			delete(s.missed, serial)
			n++
		}
	}
	s.lost += n
	return n
}

// checkLoss tells of events that are lost: numbers that miss for as long as an event is held, and
// those of which the record of the call is missing, n of them.
func (s *Source) checkLoss(n uint64) {
	if len(s.serials.missed) > 0 {
		if s.finishing {
			n += s.serials.settle(s.noted)
		} else {
			n += s.serials.settle(s.noted - min(s.noted, s.hold))
		}
	}
	drops := nlsocket.Drops(s.fd)
	dropped := drops != s.drops
	if n == 0 && !dropped {
		// All of it is told once later numbers have come.
		if s.dropped != 0 && len(s.serials.missed) == 0 && s.serials.at > s.dropped+s.hold {
			s.dropped, s.lossFrom = 0, 0
		}
		return
	}
	now := s.now()
	cause := engine.LossSocketFull
	if s.dropped == 0 && !dropped {
		cause = engine.LossScratch
	}
	s.drops = drops
	from := s.lossFrom
	if dropped { // the numbers that miss come with the next events
		if s.dropped, s.lossFrom = now, s.idle; from == 0 {
			from = s.idle
		}
	}
	if n == 0 {
		return
	}
	if from == 0 {
		from = s.idle - min(s.idle, 2*s.hold)
	}
	s.lost[cause] += n
	s.gap(engine.Gap{Cause: cause, CPU: engine.AllCPUs, From: from, To: now, Count: n})
}
