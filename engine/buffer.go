package engine

import (
	"math"

	"github.com/quark-linux/quark/internal/freelist"
)

// Buffer holds raw events until they are old enough. It orders them by time over all CPUs, and by
// arrival where times are equal. A queue for each pid gives the next events of a process without a
// search.
type Buffer struct {
	max    int
	bytes  int64 // total length of the held texts
	full   int64 // the limit of bytes
	order  queue
	pids   pidQueues
	free   freelist.List[RawEvent]
	serial uint64

	blocks    freelist.List[block] // empty blocks
	filling   *block               // the block for the next event
	rares     freelist.List[rare]
	inherited equals[Inherited]

	gaps       int // number of KindGap events held
	insertions uint64
	removals   uint64
}

// bytesPerEvent, times the maximum number of events, bounds the texts held. Few events have more
// than 300 bytes of text. A single event may exceed the whole bound.
const bytesPerEvent = 4096

// NewBuffer returns a buffer that has room for max events.
func NewBuffer(max int) *Buffer {
	return &Buffer{max: max, full: int64(max) * bytesPerEvent}
}

// Len returns the number of events held.
func (b *Buffer) Len() int { return b.order.len }

// Room returns how many more events may be inserted. At 0 a source stops reading. Unread events
// stay in the kernel, and the kernel counts the events that it drops.
func (b *Buffer) Room() int {
	if b.bytes >= b.full {
		return 0
	}
	return b.max - b.order.len
}

// Reserve returns an empty event to fill. The caller passes it to Insert or Release.
func (b *Buffer) Reserve() *RawEvent { return b.free.Get() }

// Insert adds r to the buffer.
func (b *Buffer) Insert(r *RawEvent) {
	if r.Kind == KindGap {
		r.PID = 0
		b.gaps++
	} else {
		b.insertions++
	}
	b.bytes += int64(len(r.data))
	h := b.hold(r)
	b.serial++
	h.serial = b.serial
	b.order.insert(h)
	b.pids.insert(h)
}

// Release gives back an event that is not in the buffer.
func (b *Buffer) Release(r *RawEvent) {
	r.Reset()
	b.free.Put(r)
}

// trim releases memory that was not needed since the last call.
func (b *Buffer) trim() {
	b.free.Trim()
	b.blocks.Trim()
	b.rares.Trim()
	b.pids.free.Trim()
	b.pids.byPID.trim()
}

// firstGap returns the time of the oldest held gap that may have lost an event of a known process,
// or the largest time if there is none.
func (b *Buffer) firstGap() uint64 {
	if b.gaps == 0 {
		return math.MaxUint64
	}
	// Only gaps have pid 0.
	return b.pids.byPID.get(0).first.Time
}

// hasExit reports whether the buffer holds the EXIT of a process that had the pid before a time.
func (b *Buffer) hasExit(pid uint32, before uint64) bool {
	if q := b.pids.byPID.get(pid); q != nil {
		for h := q.first; h != nil; h = h.next() {
			if h.Kind == KindExit && !h.Thread && h.Time < before {
				return true
			}
		}
	}
	return false
}

// oldest returns the event with the earliest time, or nil.
func (b *Buffer) oldest() *held { return b.order.first }

// remove removes h, whose event is r, from the buffer. The caller then owns r.
func (b *Buffer) remove(h *held, r *RawEvent) {
	if r.Kind == KindGap {
		b.gaps--
	} else {
		b.removals++
	}
	b.bytes -= int64(len(r.data))
	b.order.remove(h)
	b.pids.remove(h)
	b.leave(h)
}
