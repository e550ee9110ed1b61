package kprobe

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// losses is what is known of the events that one CPU's ring had no room for. The kernel
// writes a lost-record before the next record that finds room. Where none follows, the
// events' counts tell, once the ring was read to its end.
type losses struct {
	missed  bool   // a lost-record was read, and no sample since
	last    uint64 // time of the last sample
	none    uint64 // until then nothing is lost that no gap tells of
	between uint64 // events missing between those that were read
	told    uint64 // events that gaps tell of
	asked   bool   // the counts were asked since the last record
}

// tellLoss inserts a gap for what c lost up to a time.
func (s *Source) tellLoss(c *cpu, to engine.Sink, until uint64) {
	l := &c.losses
	missing := s.missing(c)
	if missing <= l.told {
		return
	}
	count := missing - l.told
	ev := to.Reserve()
	ev.SetGap(engine.Gap{
		Cause: engine.LossRingFull, CPU: uint32(c.number), From: max(l.none, min(l.last, until)), To: until, Count: count,
	})
	to.Insert(ev)
	l.told = missing
}

// missing is how many events of c are neither read nor queued, or fewer.
func (s *Source) missing(c *cpu) uint64 {
	l := &c.losses
	if c.leader == nil {
		return l.between
	}
	outstanding := c.outstanding()
	c.incomplete = c.incomplete && outstanding > 0
	queued := s.queued(c)
	return l.between + outstanding - min(outstanding, queued)
}

// tellSilentLosses inserts gaps for what was lost on CPUs where nothing follows. began is
// when this reading of the rings did.
func (s *Source) tellSilentLosses(to engine.Sink, began uint64) {
	for _, c := range s.cpus {
		if c.ring.Pending() > 0 || to.Room() == 0 {
			continue
		}
		if c.incomplete && !c.losses.asked {
			c.losses.asked = true
			s.tellLoss(c, to, clock.Monotonic())
		}
		c.losses.none = began
	}
}

// tellUnseen inserts gaps for the CPUs that have come online: what happened there before
// nobody saw.
func (s *Source) tellUnseen(to engine.Sink, now uint64) {
	if s.followed == 0 {
		s.followed = now
	}
	for len(s.unseen) > 0 && to.Room() > 0 {
		last := len(s.unseen) - 1
		ev := to.Reserve()
		ev.SetGap(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(s.unseen[last]), From: s.followed, To: clock.Monotonic()})
		to.Insert(ev)
		s.unseen = s.unseen[:last]
	}
	if len(s.unseen) == 0 {
		s.followed = now
	}
}
