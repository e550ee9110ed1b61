package audit

import "slices"

// queue holds events in the order of their serial numbers. A concluded event stays until all
// earlier ones are concluded, so a missing number is always a lost event.
type queue struct {
	events []*event
	free   []*event
	next   uint32 // the number of the next event to leave; valid if begun
	begun  bool
}

// latest is the latest reported event of a pid.
type latest struct {
	stamp, time uint64
	end         bool
}

// get returns the event of a serial number, or nil if it has left the queue.
func (q *queue) get(serial uint32) (e *event, isNew bool) {
	if q.begun && int32(serial-q.next) < 0 {
		return nil, false
	}
	i := len(q.events)
	for i > 0 && int32(serial-q.events[i-1].serial) < 0 {
		i--
	}
	if i > 0 && q.events[i-1].serial == serial {
		return q.events[i-1], false
	}
	if n := len(q.free); n > 0 {
		e, q.free = q.free[n-1], q.free[:n-1]
	} else {
		e = new(event)
	}
	e.reset()
	e.serial = serial
	q.events = slices.Insert(q.events, i, e)
	return e, true
}

// hole returns the number of missing serial numbers before the front event, and skips them.
func (q *queue) hole() (n uint64) {
	front := q.events[0].serial
	if q.begun {
		n = uint64(front - q.next)
	}
	q.begun, q.next = true, front
	return n
}

// hasHoles reports whether serial numbers are missing between the events. Some of them may still
// arrive.
func (q *queue) hasHoles() bool {
	n := len(q.events)
	return n > 0 && int(q.events[n-1].serial-q.events[0].serial) != n-1
}

// trim removes the concluded events at the front, up to a hole.
func (q *queue) trim() {
	for len(q.events) > 0 && q.events[0].state == concluded && q.events[0].serial == q.next {
		q.next++
		q.events, q.free = q.events[1:], append(q.free, q.events[0])
	}
}

// first returns the event to conclude next. This is the front event, with two exceptions. Threads
// can finish their calls after one thread has called exit_group: the end comes last. A child can
// act before its parent's call returns: the birth comes first.
func (q *queue) first(latest map[uint32]latest) *event {
	e := q.events[slices.IndexFunc(q.events, func(e *event) bool { return e.state != concluded && !q.goesOn(e) })]
	for range q.events { // the parent's birth, and so on
		b := q.birth(e, latest[e.pid])
		if b == nil {
			break
		}
		e = b
	}
	return e
}

// goesOn reports whether a process has done anything except an exec after its end began.
func (q *queue) goesOn(end *event) bool {
	if !end.pending() || !end.isEnd() {
		return false
	}
	o := q.later(end, func(o *event) bool { return !o.isEnd() })
	return o != nil && !o.executes()
}

// birth returns the pending birth of the process that made a call, or nil. The birth began no later
// than the call. If the latest event of the pid is recent and not an end, there is no pending
// birth.
func (q *queue) birth(call *event, l latest) *event {
	const long = 1_000_000_000 // ns
	for _, o := range q.events {
		if o != call && o.pending() && o.bears(call.pid) && o.stamp <= call.stamp &&
			(l.stamp == 0 || l.end || l.stamp+long < o.stamp && !call.isEnd()) && call.ev != nil {
			return o
		}
	}
	return nil
}

// reborn reports whether an event other than e is a pending birth of the pid.
func (q *queue) reborn(e *event, pid uint32) bool {
	return slices.ContainsFunc(q.events, func(o *event) bool { return o != e && o.pending() && o.bears(pid) })
}

// later returns the first pending event after e, by the same process, for which f returns true.
func (q *queue) later(e *event, f func(*event) bool) *event {
	for _, o := range q.events {
		switch {
		case int32(o.serial-e.serial) <= 0:
		case o.bears(e.pid):
			return nil
		case o.pending() && o.pid == e.pid && f(o):
			return o
		}
	}
	return nil
}
