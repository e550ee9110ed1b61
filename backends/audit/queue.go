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
		i := -1
		if e.known && isNew(e.pid) {
			i = slices.IndexFunc(q.events, func(f *event) bool { return f != e && f.bears(e.pid) })
		}
		if i < 0 && e.known && e.isEnd() {
			i = slices.IndexFunc(q.events, func(f *event) bool { return f.bears(e.pid) || f.known && f.pid == e.pid && !f.isEnd() && !f.isExec() })
			if i >= 0 && q.events[i].bears(e.pid) {
				i = -1 // the next process with its number follows
			}
		}
		if i < 0 {
			return e
		}
		e = q.events[i]
	}
	return e
}
