package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/clock"
)

// headerSize is the size of struct perf_event_header: type, misc, size.
const headerSize = 8

// maxRecord bounds the size of a record: the kernel stores it in 16 bits.
const maxRecord = 1 << 16

// Ring reads a perf ring.
type Ring struct {
	fd     int
	memory []byte // the control page and the data

	head *uint64 // bytes that the kernel has written since the start
	tail *uint64 // bytes that were released
	data []byte
	at   uint64 // bytes that Next has read; Release publishes the number

	// scratch holds a copy of a record that wraps around the end of the data. It grows to the
	// largest such record.
	scratch []byte

	// Set by Look: pending reports whether a record is queued, next is its time.
	pending bool
	next    uint64
}

// Map maps a ring of an event. The size in bytes is a power of two and at least one page. The
// caller must close the ring before the event.
func Map(e *Event, size int) (*Ring, error) {
	page := os.Getpagesize()
	if size < page || size&(size-1) != 0 {
		return nil, fmt.Errorf("map perf ring of %d bytes: it must be a power of two and at least %d", size, page)
	}
	m, err := unix.Mmap(e.fd, 0, page+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("map perf ring of %d bytes: %w: needs CAP_IPC_LOCK, or a higher kernel.perf_event_mlock_kb", size, err)
	case err != nil:
		return nil, fmt.Errorf("map perf ring of %d bytes: %w", size, err)
	}
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&m[0]))
	return newRing(e.fd, m, &control.Data_head, &control.Data_tail, m[page:]), nil
}

func newRing(fd int, memory []byte, head, tail *uint64, data []byte) *Ring {
	return &Ring{fd: fd, memory: memory, head: head, tail: tail, data: data, at: atomic.LoadUint64(tail)}
}

// FD polls readable if the ring has reached its watermark or a wakeup event has happened.
func (r *Ring) FD() int { return r.fd }

// Record is a record of a ring. Its body is valid until Release.
type Record struct {
	Type uint32 // PERF_RECORD_*
	Body []byte // the bytes after the header
	// Aside is set for a record that wraps around the end of the ring. The next such record
	// overwrites the body.
	Aside bool
}

// Next returns the next record. ok is false if there is none. If the kernel's positions and lengths
// contradict each other, bad is true and the rest of the ring is skipped.
func (r *Ring) Next() (rec Record, ok, bad bool) {
	head := atomic.LoadUint64(r.head)
	queued := head - r.at
	if queued == 0 {
		return rec, false, false
	}
	mask := uint64(len(r.data) - 1)
	if queued < headerSize || queued > uint64(len(r.data)) || r.at&7 != 0 {
		r.at = head
		return rec, false, true
	}
	// The sizes of records are multiples of eight, so that a header never wraps.
	start := r.at & mask
	header := r.data[start:][:headerSize]
	size := uint64(binary.NativeEndian.Uint16(header[6:]))
	if size < headerSize || size > queued || size&7 != 0 {
		r.at = head
		return rec, false, true
	}
	rec.Type = binary.NativeEndian.Uint32(header)
	r.at += size
	if end := start + size; end <= uint64(len(r.data)) {
		rec.Body = r.data[start+headerSize : end : end]
		return rec, true, false
	}
	if uint64(cap(r.scratch)) < size {
		r.scratch = make([]byte, size, min(2*size, maxRecord))
	}
	b := r.scratch[:size]
	n := copy(b, r.data[start:])
	copy(b[n:], r.data)
	rec.Body, rec.Aside = b[headerSize:], true
	return rec, true, false
}

// Ahead returns a second reader, which leaves the queued records in the ring. Release must not be
// called on the second reader.
func (r *Ring) Ahead() Ring {
	ahead := *r
	ahead.scratch = nil
	return ahead
}

// Time returns the time of the next record, or 0 if that record has no time; ok is false if there
// is no record.
func (r *Ring) Time() (ns uint64, ok bool) {
	const at, end = headerSize + 8, headerSize + 16 // after the ids of the task
	b := r.data[r.at&uint64(len(r.data)-1)&^7:][:headerSize]
	switch queued := atomic.LoadUint64(r.head) - r.at; {
	case queued == 0:
		return 0, false
	case queued < end || binary.NativeEndian.Uint32(b) != RecordSample || binary.NativeEndian.Uint16(b[6:]) < end:
		return 0, true
	}
	return binary.NativeEndian.Uint64(r.data[(r.at+at)&uint64(len(r.data)-1)&^7:]), true
}

// Look reads the time of the next record of each ring, for [Oldest]. It returns the time when it is
// done.
func Look[C OfCPU](all []C) (ended uint64) {
	for _, c := range all {
		c.cpu().Ring.Look()
	}
	// After this time an empty ring may get a record that is older than the records of other
	// rings.
	return clock.Monotonic()
}

// Look reads the time of the ring's next record, for [Oldest].
func (r *Ring) Look() { r.next, r.pending = r.Time() }

// Oldest returns the element whose ring had the oldest record at the last Look, and the time of
// that record; ok is false if all rings were empty.
func Oldest[C OfCPU](all []C) (of C, ns uint64, ok bool) {
	for _, c := range all {
		if r := c.cpu().Ring; r.pending && (!ok || r.next < ns) {
			of, ns, ok = c, r.next, true
		}
	}
	return of, ns, ok
}

// ReadQueued reads the queued records of the rings, oldest first, while more returns true. step
// reads one record of a ring. The remaining records are newer. ReadQueued returns false if no
// record was queued.
func ReadQueued[C OfCPU](all []C, more func() bool, step func(C)) (some bool) {
	until := Look(all)
	for more() {
		of, ns, ok := Oldest(all)
		if !ok || some && ns > until {
			return some
		}
		some = true
		step(of)
		of.cpu().Ring.Look()
	}
	return some
}

// Release lets the kernel overwrite the records that were read. most is the largest number of bytes
// in the ring since the last call.
func (r *Ring) Release() (most int) {
	tail := atomic.SwapUint64(r.tail, r.at)
	return int(atomic.LoadUint64(r.head) - tail)
}

// Pending returns the number of queued bytes.
func (r *Ring) Pending() int { return int(atomic.LoadUint64(r.head) - r.at) }

// written returns the number of bytes that the kernel has written since the start.
func (r *Ring) written() uint64 { return atomic.LoadUint64(r.head) }

// Size returns the capacity in bytes.
func (r *Ring) Size() int { return len(r.data) }

// Close unmaps the ring.
func (r *Ring) Close() error {
	if r.memory == nil {
		return os.ErrClosed
	}
	err := unix.Munmap(r.memory)
	r.memory = nil
	return err
}
