package engine

// timeList is a doubly linked list of the buffer's events in order of (time, arrival). Sources
// deliver nearly sorted runs: a ring shared by all CPUs, or the rings of the CPUs one after the
// other. So the place of a new event is usually at the end, or near the event inserted last, and
// insertion tries these first. On such runs it takes constant time, a heap logarithmic time.
type timeList struct {
	first, last *held
	finger      *held // the event inserted last, if it is still here
	len         int
}

func (l *timeList) insert(r *held) {
	at := l.last // r is inserted after at
	if at != nil && r.before(at) && l.finger != nil {
		at = l.finger
	}
	for at != nil && r.before(at) {
		at = at.earlier
	}
	next := l.first
	if at != nil {
		next = at.later
	}
	for next != nil && next.before(r) {
		at, next = next, next.later
	}
	r.earlier, r.later = at, next
	if at == nil {
		l.first = r
	} else {
		at.later = r
	}
	if next == nil {
		l.last = r
	} else {
		next.earlier = r
	}
	l.finger = r
	l.len++
}

func (l *timeList) remove(r *held) {
	if r.earlier == nil {
		l.first = r.later
	} else {
		r.earlier.later = r.later
	}
	if r.later == nil {
		l.last = r.earlier
	} else {
		r.later.earlier = r.earlier
	}
	if l.finger == r {
		l.finger = r.earlier
	}
	r.earlier, r.later = nil, nil
	l.len--
}
