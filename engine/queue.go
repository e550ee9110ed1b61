package engine

import "github.com/quark-linux/quark/internal/freelist"

// link has the neighbours of an event in one of its queues.
type link struct{ before, after *held }

// The links of an event.
const (
	linkTime = iota // in the queue of all events
	linkPID         // in the queue of its pid
)

// queue is a doubly linked list of events in order of (time, arrival). Sources deliver nearly
// sorted runs: a ring shared by all CPUs, or the rings of the CPUs one after the other. So the
// place of a new event is usually at the end, or near the event inserted last, and insertion tries
// these places first. On such runs an insertion takes constant time; with a heap it would take
// logarithmic time.
type queue struct {
	pid         uint32 // in a queue of linkPID
	link        uint8
	first, last *held
	finger      *held // the event inserted last, if still in the queue
	len         int
}

func (q *queue) insert(h *held) {
	at := q.last // h is inserted after at
	if at != nil && h.before(at) && q.finger != nil {
		at = q.finger
	}
	for at != nil && h.before(at) {
		at = at.links[q.link].before
	}
	next := q.first
	if at != nil {
		next = at.links[q.link].after
	}
	for next != nil && next.before(h) {
		at, next = next, next.links[q.link].after
	}
	h.links[q.link] = link{at, next}
	if at == nil {
		q.first = h
	} else {
		at.links[q.link].after = h
	}
	if next == nil {
		q.last = h
	} else {
		next.links[q.link].before = h
	}
	q.finger = h
	q.len++
}

func (q *queue) remove(h *held) {
	l := h.links[q.link]
	if l.before == nil {
		q.first = l.after
	} else {
		l.before.links[q.link].after = l.after
	}
	if l.after == nil {
		q.last = l.before
	} else {
		l.after.links[q.link].before = l.before
	}
	if q.finger == h {
		q.finger = l.before
	}
	h.links[q.link] = link{}
	q.len--
}

// pidQueues finds the queue of a pid. Empty queues are reused.
type pidQueues struct {
	byPID pidMap[queue]
	free  freelist.List[queue]
}

func (x *pidQueues) insert(h *held) {
	slot := x.byPID.place(h.PID)
	q := *slot
	if q == nil {
		q = x.free.Get()
		q.pid, q.link = h.PID, linkPID
		*slot = q
	}
	h.queue = q
	q.insert(h)
}

func (x *pidQueues) remove(h *held) {
	q := h.queue
	h.queue = nil
	if q.remove(h); q.first == nil {
		x.byPID.delete(q.pid)
		x.free.Put(q)
	}
}
