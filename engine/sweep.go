package engine

import (
	"math"
	"time"
)

// sweep checks which processes of the table still exist. It begins when all events until the end of
// a gap are delivered and, if the source does not report every EXIT, when the table has doubled. It
// checks a few processes at a time, so that no call of Get takes long.
type sweep struct {
	todo  []uint32 // pids to check
	gapTo uint64   // the end of the gap that caused the check
	alive int      // processes found alive by the latest sweep without EXITs
	again uint64   // the earliest time of the next such sweep
	next  uint64   // when to continue
}

// missing is a process that was found gone, or whose pid was found reused. Its EXIT may still be
// delivered.
type missing struct {
	p    *process
	born uint64 // of p; the memory of p may have been reused since
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

	// maxExitDelay bounds the time between the moment when a process leaves /proc and its EXIT:
	// on a busy machine the process waits for a CPU. The longest measured time is 0.3 s.
	maxExitDelay = uint64(2 * time.Second)
)

// sweep continues the sweep. It returns the GONE event of a process that ended without an EXIT, as
// the EXIT was lost or came before the start; nil if there is none.
func (e *Engine) sweep(now uint64) *Event {
	if e.table.checkPID != nil {
		e.search(now)
	}
	return e.gone(now)
}

// sweeps reports whether there are processes to check, now or later.
func (e *Engine) sweeps(now uint64) bool {
	s := &e.sweeping
	return len(s.todo)+len(e.table.missing) > 0 || e.table.orphans.some() || e.table.checkPID != nil && (e.table.gapTo > s.gapTo || e.doubled(now))
}

// doubled reports whether no sweep is in progress and the table has twice the live processes of the
// latest sweep. It applies to tables that do not receive every EXIT.
func (e *Engine) doubled(now uint64) bool {
	s := &e.sweeping
	return !e.table.ends && e.table.count > max(2*s.alive, minFull) && len(s.todo)+len(e.table.missing) == 0 && now >= s.again
}

// search checks the next processes, if their check is due.
func (e *Engine) search(now uint64) {
	s := &e.sweeping
	if len(s.todo) == 0 && e.sweepDue(now) {
		for pid := range e.table.byPID.pids() {
			s.todo = append(s.todo, pid)
		}
	}
	if len(s.todo) > 0 && now >= s.next {
		s.next = now + sweepPause
		n := max(0, len(s.todo)-sweepBatch)
		for _, pid := range s.todo[n:] {
			e.checkAlive(pid)
		}
		s.todo = s.todo[:n]
	}
}

// sweepDue reports whether to begin a sweep. No sweep is in progress.
func (e *Engine) sweepDue(now uint64) bool {
	s, gapTo := &e.sweeping, e.table.gapTo
	switch {
	case e.doubled(now):
		s.gapTo, s.alive, s.again = now, 0, now+e.table.grace
		return true
	case gapTo > s.gapTo && now >= s.next:
		if e.deliveredUntil(gapTo, gapTo+e.hold, now) {
			s.gapTo = gapTo
			return true
		}
		s.next = now + sweepPause
	}
	return false
}

// checkAlive checks the live process of a pid.
func (e *Engine) checkAlive(pid uint32) {
	s := &e.sweeping
	p := e.table.byPID.get(pid)
	if p == nil || p.life != living || max(p.asOf, p.checked) > s.gapTo {
		return
	}
	if e.table.state(p) == PIDGone {
		e.table.miss(p, e.clock.Now()) // it may have ended since this call of Get began
	} else {
		s.alive++
	}
}

// miss records that p was gone at a time.
func (t *table) miss(p *process, time uint64) {
	t.missing = append(t.missing, missing{p, p.born, time})
}

// replace ends p, because another process has its pid at r. After a gap p gets a GONE, unless r may
// be an event of p: only a birth or different start times prove another process.
func (t *table) replace(p *process, r *RawEvent, now uint64) {
	by := inferred
	if p.life == living && t.lost(p) && (r.isBirth() || (r.Task.Known & p.Known).Has(FieldStart)) {
		by = replaced
		t.miss(p, r.Time)
	}
	t.end(p, by, r.Time, now)
}

// gone ends the first missing process whose EXIT can't come any more, and returns its GONE. The
// EXIT can't come when all events until the check, and until the possible delay of an EXIT, are
// delivered.
func (e *Engine) gone(now uint64) *Event {
	t := &e.table
	for len(t.missing) > 0 {
		m := t.missing[0]
		if m.gone() && !e.deliveredUntil(m.time, m.time+max(e.hold, maxExitDelay), now) {
			return nil
		}
		t.missing = t.missing[:copy(t.missing, t.missing[1:])]
		if !m.gone() {
			continue
		}
		next := uint64(math.MaxUint64) // when its pid was reused
		if m.p.younger != nil {
			next = m.p.younger.born
		}
		if e.buffer.hasExit(m.p.PID, next) {
			continue
		}
		if ev := e.endMissing(m.p, m.time, now); ev != nil {
			return ev
		}
	}
	return nil
}

// deliveredUntil reports whether all events up to time are delivered. Such events arrive by late.
func (e *Engine) deliveredUntil(time, late, now uint64) bool {
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

// endMissing ends p, which was gone by a time. It returns the GONE event, or nil if no event is
// wanted.
func (e *Engine) endMissing(p *process, time, now uint64) *Event {
	e.table.refresh(p)
	e.table.end(p, inferred, time, now)
	p.endedBy(time)
	if !e.table.ends {
		return nil // EXIT was not requested
	}
	return e.eventOf(EventGone, p, max(time, e.delivered, e.begin))
}

// eventOf returns an event without a raw event, or nil if it is not wanted.
func (e *Engine) eventOf(kind Events, p *process, time uint64) *Event {
	e.event = Event{
		Parts: e.event.Parts[:0], Events: kind, Time: time, CPU: AllCPUs, Wall: e.clock.At(time), TID: p.PID, Process: e.table.show(p),
	}
	e.countLate(time)
	if e.passes(&e.event, p) {
		return &e.event
	}
	return nil
}

// sweepWait returns how long sweep can wait; ok is false if it can wait for ever.
func (e *Engine) sweepWait(now uint64) (wait uint64, ok bool) {
	s := &e.sweeping
	switch {
	case len(e.table.orphans.ends) > 0:
		at := e.table.orphans.ends[0].time + e.hold
		return at - min(now, at), true
	case len(s.todo) > 0:
		return s.next - min(now, s.next), true
	case len(e.table.missing) > 0:
		at := e.table.missing[0].time + max(e.hold, maxExitDelay)
		return at - min(now, at), true
	case e.table.checkPID != nil && e.table.gapTo > s.gapTo:
		at := max(e.table.gapTo+e.hold, s.next)
		return at - min(now, at), true
	}
	return 0, false
}
