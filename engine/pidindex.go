package engine

import "math/bits"

// pidQueue is the events of one pid in the order of the buffer.
type pidQueue struct {
	pid         uint32
	first, last *RawEvent
	next        *pidQueue // same bucket; free list
}

// pidIndex finds the queue of a pid. It is a chained hash table whose queues
// are used again: the runtime's map would allocate as pids come and go.
type pidIndex struct {
	buckets []*pidQueue
	shift   uint
	free    *pidQueue
}

// init sizes the table for at most max queues.
func (x *pidIndex) init(max int) {
	size := 1 << bits.Len(uint(min(max, 1<<20)))
	x.buckets = make([]*pidQueue, size)
	x.shift = uint(64 - bits.TrailingZeros(uint(size)))
}

// bucket spreads pids, which the kernel hands out in sequence, by Fibonacci hashing.
func (x *pidIndex) bucket(pid uint32) **pidQueue {
	return &x.buckets[uint64(pid)*0x9e3779b97f4a7c15>>x.shift]
}

func (x *pidIndex) add(r *RawEvent) {
	head := x.bucket(r.PID)
	q := *head
	for q != nil && q.pid != r.PID {
		q = q.next
	}
	if q == nil {
		if q = x.free; q != nil {
			x.free = q.next
		} else {
			q = new(pidQueue)
		}
		*q = pidQueue{pid: r.PID, next: *head}
		*head = q
	}
	r.queue = q
	// Events come nearly in order: the place is at the end or close to it.
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

func (x *pidIndex) remove(r *RawEvent) {
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
	at := x.bucket(q.pid)
	for *at != q {
		at = &(*at).next
	}
	*at = q.next
	*q = pidQueue{next: x.free}
	x.free = q
}
