package engine

import (
	"math"
	"time"
)

// sweep looks which processes of the table are still there: when all that happened until the end of
// a gap was delivered, and, if the source does not report every EXIT, when the table has doubled.
// It looks at a few at a time, so that no call of Get takes long.
type sweep struct {
	todo  []uint32 // pids to look at
	gapTo uint64   // the end of the gap that they are looked at for
	alive int      // processes that were there at the latest look without EXITs
	again uint64   // the earliest time of the next one
	next  uint64   // when to go on
}

// missing is a process that was not there at a time, or had lost its pid to another. Its EXIT may
// only not have been delivered yet.
type missing struct {
	p    *process
	born uint64 // of p, whose memory may be another's by now
	time uint64
}

// gone reports whether m is still missing.
func (m *missing) gone() bool {
	return m.p.born == m.born && (m.p.life == replaced || m.p.life == living && max(m.p.asOf, m.p.checked) <= m.time)
}

const (
	sweepBatch = 32
	minFull    = 1024
	sweepPause = uint64(5 * time.Millisecond)

	// lastWord is how long a process may still report its end after it has left /proc: on a
	// busy machine it waits for a CPU in between. 0.3 s have been seen.
	lastWord = uint64(2 * time.Second)
)

// sweep continues the look through the table. It returns the event of a process that has ended and
// has no EXIT, as that was lost or came before the start; nil if there is none.
func (e *Engine) sweep(now uint64) *Event {
	if e.table.look != nil {
		e.search(now)
	}
	return e.gone(now)
}

// sweeps reports whether there are processes to look for, now or later.
func (e *Engine) sweeps(now uint64) bool {
	s := &e.sweeping
	return len(s.todo)+len(e.table.missing) > 0 || e.table.look != nil && (e.table.gapTo > s.gapTo || e.doubled(now))
}

// doubled reports whether no look is under way, and the table has twice the processes that were
// alive at the latest one. It applies to tables that receive no ends.
func (e *Engine) doubled(now uint64) bool {
	s := &e.sweeping
	return !e.table.ends && e.table.count > max(2*s.alive, minFull) && len(s.todo)+len(e.table.missing) == 0 && now >= s.again
}

// search checks the next processes, if it is time to.
func (e *Engine) search(now uint64) {
	s := &e.sweeping
	if len(s.todo) == 0 && e.lookDue(now) {
		for pid := range e.table.byPID.pids() {
			s.todo = append(s.todo, pid)
		}
	}
	if len(s.todo) > 0 && now >= s.next {
		s.next = now + sweepPause
		n := max(0, len(s.todo)-sweepBatch)
		for _, pid := range s.todo[n:] {
			e.lookFor(pid)
		}
		s.todo = s.todo[:n]
	}
}

// lookDue reports whether to look through the table, once a look is over.
func (e *Engine) lookDue(now uint64) bool {
	s, gapTo := &e.sweeping, e.table.gapTo
	switch {
	case e.doubled(now):
		s.gapTo, s.alive, s.again = now, 0, now+e.table.grace
		return true
	case gapTo > s.gapTo && now >= s.next:
		if e.told(gapTo, gapTo+e.hold, now) {
			s.gapTo = gapTo
			return true
		}
		s.next = now + sweepPause
	}
	return false
}

// lookFor checks the live process of a pid.
func (e *Engine) lookFor(pid uint32) {
	s := &e.sweeping
	p := e.table.byPID.get(pid)
	if p == nil || p.life != living || max(p.asOf, p.checked) > s.gapTo {
		return
	}
	if e.table.sight(p) == SightGone {
		e.table.miss(p, e.clock.Now()) // it may have ended since this call of Get began
	} else {
		s.alive++
	}
}

// miss records that p was not there at a time.
func (t *table) miss(p *process, time uint64) {
	t.missing = append(t.missing, missing{p, p.born, time})
}

// replace ends p, as another process has its pid at r. After a gap it is GONE, unless r may be
// its own event: only a birth or different start times prove another process.
func (t *table) replace(p *process, r *RawEvent, now uint64) {
	by := inferred
	if p.life == living && t.lost(p) && (r.isBirth() || (r.Task.Known & p.Known).Has(FieldStart)) {
		by = replaced
		t.miss(p, r.Time)
	}
	t.end(p, by, r.Time, now)
}

// gone ends the first of the missing processes that can't have an EXIT any more: all that happened
// before the check for it has been delivered. An EXIT can be stamped later.
func (e *Engine) gone(now uint64) *Event {
	t := &e.table
	for len(t.missing) > 0 {
		m := t.missing[0]
		if m.gone() && !e.told(m.time, m.time+max(e.hold, lastWord), now) {
			return nil
		}
		t.missing = t.missing[:copy(t.missing, t.missing[1:])]
		if !m.gone() {
			continue
		}
		next := uint64(math.MaxUint64) // when its pid was another's
		if m.p.younger != nil {
			next = m.p.younger.born
		}
		if e.buffer.hasExit(m.p.PID, next) {
			continue
		}
		if ev := e.tellGone(m.p, m.time, now); ev != nil {
			return ev
		}
	}
	return nil
}

// told reports whether all events up to a time are delivered, provided that they arrive by late.
func (e *Engine) told(time, late, now uint64) bool {
	head := e.buffer.oldest()
	if now < late || head != nil && head.Time <= time {
		return false
	}
	if e.holder != nil {
		if held, some := e.holder.Held(); some && held <= time {
			return false
		}
	}
	return e.emptied >= late || head != nil && head.Time >= late
}

// tellGone ends p, which was gone by a time, and returns the event for it, or nil if no event is
// wanted.
func (e *Engine) tellGone(p *process, time, now uint64) *Event {
	e.table.refresh(p)
	e.table.end(p, inferred, time, now)
	p.endedBy(time)
	if !e.table.ends {
		return nil // EXIT was not requested
	}
	time = max(time, e.delivered, e.begin)
	e.event = Event{
		Parts: e.event.Parts[:0], Events: EventGone, Time: time, CPU: AllCPUs, Wall: e.clock.At(time), TID: p.PID, Process: e.table.show(p),
	}
	e.delivered = time
	if e.passes(&e.event, p) {
		return &e.event
	}
	return nil
}

// sweepWait returns how long sweep can wait; ok is false if that is forever.
func (e *Engine) sweepWait(now uint64) (wait uint64, ok bool) {
	s := &e.sweeping
	switch {
	case len(s.todo) > 0:
		return s.next - min(now, s.next), true
	case len(e.table.missing) > 0:
		at := e.table.missing[0].time + max(e.hold, lastWord)
		return at - min(now, at), true
	case e.table.look != nil && e.table.gapTo > s.gapTo:
		at := max(e.table.gapTo+e.hold, s.next)
		return at - min(now, at), true
	}
	return 0, false
}
