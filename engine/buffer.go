package engine

import "math"

// Buffer holds raw events until they are old enough: ordered by time over all
// CPUs, and for each pid as a queue of its own, so that the successors of an
// event are found without a search. Events of the same time keep the order in
// which they came; none is dropped for a collision.
type Buffer struct {
	max    int
	order  timeList
	byPID  pidIndex
	free   *RawEvent
	serial uint64

	gaps       int    // KindGap among the events held
	gapTo      uint64 // the latest end of those inserted
	insertions uint64
	removals   uint64
}

// NewBuffer returns a buffer that has room for max events.
func NewBuffer(max int) *Buffer {
	return &Buffer{max: max}
}

// Len is the number of events held.
func (b *Buffer) Len() int { return b.order.len }

// Room is how many more events may be inserted. A source stops when there is
// none: what it leaves behind stays in the kernel, which counts what it drops.
func (b *Buffer) Room() int { return b.max - b.order.len }

// Reserve returns an empty event to fill. The caller gives it to Insert or to
// Release.
func (b *Buffer) Reserve() *RawEvent {
	r := b.free
	if r == nil {
		return new(RawEvent)
	}
	b.free = r.next
	r.next = nil
	return r
}

// Insert takes r into the buffer.
func (b *Buffer) Insert(r *RawEvent) {
	b.serial++
	r.serial = b.serial
	if r.Kind == KindGap {
		r.PID = 0
		b.gaps++
		b.gapTo = max(b.gapTo, r.Gap.To)
	} else {
		b.insertions++
	}
	b.order.insert(r)
	b.byPID.add(r)
}

// Release gives back an event that is not in the buffer.
func (b *Buffer) Release(r *RawEvent) {
	r.Reset()
	r.next = b.free
	b.free = r
}

// firstGap returns the time of the oldest gap that is held, or the end of time.
func (b *Buffer) firstGap() uint64 {
	if b.gaps == 0 {
		return math.MaxUint64
	}
	return b.byPID.queues.get(0).first.Time // gaps are events of pid 0, and no others are
}

// oldest returns the event with the earliest time, nil when there is none.
func (b *Buffer) oldest() *RawEvent { return b.order.first }

// remove takes r out of the buffer. The caller then owns it.
func (b *Buffer) remove(r *RawEvent) {
	if r.Kind == KindGap {
		b.gaps--
	} else {
		b.removals++
	}
	b.order.remove(r)
	b.byPID.remove(r)
}

// before is the order of the buffer.
func (r *RawEvent) before(o *RawEvent) bool {
	return r.Time < o.Time || r.Time == o.Time && r.serial < o.serial
}
