package engine

import "github.com/quark-linux/quark/internal/freelist"

// pidQueue is the queue of the events of one pid, in the order of the buffer.
type pidQueue struct {
	pid         uint32
	first, last *held
}

// pidIndex finds the queue of a pid. Empty queues are reused.
type pidIndex struct {
	queues map[uint32]*pidQueue
	free   freelist.List[pidQueue]
}

func (x *pidIndex) add(r *held) {
	q := x.queues[r.PID]
	if q == nil {
		q = x.free.Get()
		q.pid = r.PID
		x.queues[q.pid] = q
	}
	r.queue = q
	// Events arrive nearly in order: the place is at the end or close to it.
	at := q.last
	for at != nil && r.before(at) {
		at = at.prev
	}
	r.prev = at
	if at == nil {
		r.next = q.first
		q.first = r
	} else {
		r.next = at.next
		at.next = r
	}
	if r.next == nil {
		q.last = r
	} else {
		r.next.prev = r
	}
}

func (x *pidIndex) remove(r *held) {
	q := r.queue
	if r.prev == nil {
		q.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		q.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.queue, r.next, r.prev = nil, nil, nil
	if q.first != nil {
		return
	}
	delete(x.queues, q.pid)
	x.free.Put(q)
}
