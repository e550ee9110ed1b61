package engine

// timeList is the events of a buffer in order of (time, arrival): a doubly
// linked list. Sources deliver runs that are sorted but for neighbours (a ring
// shared by all CPUs, or one ring a CPU after the other), so a new event's
// place is at the end or near that of the one inserted before it, and both are
// tried first: insertion takes constant time on such runs, where a heap would
// pay the logarithm for each.
type timeList struct {
	first, last *RawEvent
	finger      *RawEvent // the event inserted last, if it is still here
	len         int
}

func (l *timeList) insert(r *RawEvent) {
	at := l.last // r goes behind at
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

func (l *timeList) remove(r *RawEvent) {
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
