package audit

import (
	"math"
	"slices"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/engine"
)

// hole is an event that did not come, or of which not all came.
type hole struct {
	seen uint64 // when that was first seen
	from uint64 // it happened later than that
	full bool   // the socket had dropped messages of which not all events were told
}

// loss is how many events are lost, since when.
type loss struct {
	hole
	n uint64
}

func (l *loss) add(h hole) {
	if l.n++; l.n == 1 {
		l.hole = h
		return
	}
	l.seen, l.from, l.full = min(l.seen, h.seen), min(l.from, h.from), l.full || h.full
}

// serials finds the numbers that are missing: each is an event of which nothing has come. Numbers
// come nearly in order.
type serials struct {
	next   uint32
	begun  bool
	at     uint64 // when the latest came
	missed map[uint32]hole
	oldest uint64 // when the first of missed was seen to be
	lost   uint64
}

// maxHole is more than what is lost at once: a number that is further is of another count.
const maxHole = 1 << 20

// saw notes a number, and what those are that miss before it.
func (s *serials) saw(n uint32, h hole) {
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
		if len(s.missed) == 0 {
			s.oldest = h.seen
		}
		for ; s.next != n; s.next++ {
			s.missed[s.next] = h
		}
	}
	s.next, s.at = n+1, h.seen
}

// misses reports whether numbers are missing since a time or longer.
func (s *serials) misses(until uint64) bool { return len(s.missed) > 0 && s.oldest <= until }

// settle adds the numbers to a loss that are missing since a time or longer, and forgets them.
func (s *serials) settle(l *loss, until uint64) {
	s.oldest = math.MaxUint64
	for serial, h := range s.missed {
		if h.seen <= until {
			delete(s.missed, serial)
			l.add(h)
			s.lost++
		} else {
			s.oldest = min(s.oldest, h.seen)
		}
	}
}

// drop is messages that the socket had no room for. Which events they were is known when the socket
// has been emptied and numbers come that are later.
type drop struct {
	noticed, from uint64
	emptied       uint64 // when the socket was first empty after noticed, 0 for not yet
}

// sent returns a time before which all events were received: when the socket was last empty, less
// what the kernel may need to send them.
func (s *Source) sent() uint64 { return s.idle - min(s.idle, 2*s.hold) }

// missing is what is told of an event that is missing before a record that is received now.
func (s *Source) missing(now uint64) hole {
	if len(s.dropped) > 0 {
		return hole{now, s.dropped[0].from, true}
	}
	return hole{now, s.sent(), false}
}

// maxDrops is how many drops are kept apart.
const maxDrops = 64

// noteDrops looks whether the socket has dropped messages.
func (s *Source) noteDrops() {
	drops := nlsocket.Drops(s.fd)
	if drops == s.drops {
		return
	}
	now := s.now()
	s.drops, s.lastDrop = drops, now
	if n := len(s.dropped); n < maxDrops {
		s.dropped = append(s.dropped, drop{noticed: now, from: s.sent()})
	} else {
		s.dropped[n-1].noticed, s.dropped[n-1].emptied = now, 0
	}
}

// mayMiss reports whether records of an event may be lost though some have come.
func (s *Source) mayMiss(e *event) bool {
	return !e.complete || e.missing.full || s.lastDrop >= e.received
}

// lostSince reports whether something may be lost that has happened since the begin of an event's
// call, whether it was told yet or not.
func (s *Source) lostSince(e *event) bool {
	return len(s.dropped) > 0 || max(s.lastDrop, s.lossTo) >= e.stamp || s.serials.misses(max(e.received, e.read)+inFlight)
}

// checkLoss tells of events that are lost: numbers that miss for as long as an event is held, and
// l, those of which a record is missing that says what happened.
func (s *Source) checkLoss(l loss) {
	now := s.now()
	if until := s.noted; len(s.serials.missed) > 0 {
		if !s.finishing {
			until -= min(until, s.hold)
		}
		s.serials.settle(&l, until)
	}
	// What was in the socket then is of before the drop, whenever it is read.
	for i := range s.dropped {
		if d := &s.dropped[i]; d.emptied == 0 && s.idle > d.noticed {
			d.emptied = s.idle
		}
	}
	for len(s.dropped) > 0 && s.dropped[0].emptied != 0 && s.serials.at > s.dropped[0].emptied+s.hold {
		s.dropped = slices.Delete(s.dropped, 0, 1)
	}
	if l.n == 0 {
		return
	}
	cause := engine.LossScratch
	if l.full || l.seen <= s.lastDrop {
		cause = engine.LossSocketFull
	}
	s.lost[cause] += l.n
	s.gap(engine.Gap{Cause: cause, CPU: engine.AllCPUs, From: l.from, To: now, Count: l.n})
}
