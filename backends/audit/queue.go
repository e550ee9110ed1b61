package audit

import "slices"

// queue has events in the order of their stamps, and of their numbers where these are the same: a
// call that ended before another one began comes before it.
type queue struct {
	events []*event
	free   []*event
}

// take returns an empty event, which is in no order yet.
func (q *queue) take() *event {
	if n := len(q.free); n > 0 {
		e := q.free[n-1]
		q.free = q.free[:n-1]
		return e
	}
	e := new(event)
	e.reset()
	return e
}

// put puts an event where it belongs. Almost always that is the end.
func (q *queue) put(e *event) {
	i := len(q.events)
	for i > 0 && before(e, q.events[i-1]) {
		i--
	}
	q.events = slices.Insert(q.events, i, e)
}

func before(a, b *event) bool {
	return a.stamp < b.stamp || a.stamp == b.stamp && int32(a.serial-b.serial) < 0
}

// remove takes an event out. It is valid until the next take.
func (q *queue) remove(e *event) {
	if i := slices.Index(q.events, e); i >= 0 {
		q.events = slices.Delete(q.events, i, i+1)
	}
	e.reset()
	q.free = append(q.free, e)
}

// first returns the event that happened first. A child can have done something before its parent's
// call returns, which gives the number: the birth comes first. isNew reports whether that of a
// process is not known. And the end of a process is stamped when one of its threads has it begin:
// what the others did meanwhile comes first, but for an exec, which is of a next process.
func (q *queue) first(isNew func(pid uint32) bool) *event {
	if len(q.events) == 0 {
		return nil
	}
	e := q.events[0]
	for range q.events { // of the parent's birth, and so on
		f := q.earlier(e, isNew)
		if f == nil {
			break
		}
		e = f
	}
	return e
}

// earlier returns the event that goes before another one though it is stamped later, or nil.
func (q *queue) earlier(e *event, isNew func(pid uint32) bool) (first *event) {
	if !e.known {
		return nil
	}
	fresh, ends := isNew(e.pid), e.isEnd()
	for _, f := range q.events {
		switch {
		case f != e && f.bears(e.pid) && fresh:
			return f
		case f != e && f.bears(e.pid): // the next process with its number follows
			return first
		case first == nil && ends && f.known && f.pid == e.pid && !f.isEnd() && !f.isExec():
			first = f
		}
	}
	return first
}
