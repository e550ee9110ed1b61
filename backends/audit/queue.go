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

// oldest returns the event that happened first, or nil. The end of a process is stamped when one of
// its threads has it begin: it comes after what the others did meanwhile.
func (q *queue) oldest() *event {
	for _, e := range q.events {
		if !q.goesOn(e) {
			return e
		}
	}
	return nil
}

// first returns the event to conclude first. That is the oldest, but a child can have done
// something before its parent's call returns, which gives the number: the birth comes first. isNew
// reports whether that of a process is not known.
func (q *queue) first(isNew func(pid uint32) bool) *event {
	e := q.oldest()
	for range q.events { // of the parent's birth, and so on
		f := q.birth(e, isNew)
		if f == nil {
			break
		}
		e = f
	}
	return e
}

// birth returns the birth of the process of an event if it is not known yet, or nil.
func (q *queue) birth(e *event, isNew func(pid uint32) bool) *event {
	if !e.known || !isNew(e.pid) {
		return nil
	}
	for _, f := range q.events {
		if f != e && f.bears(e.pid) {
			return f
		}
	}
	return nil
}

// goesOn reports whether the process did something after an end began, in the time that may take,
// before an exec, or a birth of a next process with its number.
func (q *queue) goesOn(end *event) bool {
	if !end.known || !end.isEnd() {
		return false
	}
	for _, f := range q.events {
		switch {
		case f == end:
		case f.bears(end.pid), f.executes(end.pid):
			return false
		case f.known && f.pid == end.pid && !f.isEnd() && !f.isExec():
			return f.stamp <= end.stamp+longestEnd
		}
	}
	return false
}
