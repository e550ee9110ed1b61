package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first 32 bits of a record in the ring (linux/bpf.h) are its length and two flags. Eight bytes
// of header precede each record. Records start at multiples of eight.
const (
	recordBusy    = 1 << 31 // still being written
	recordDiscard = 1 << 30 // to be skipped
	recordHeader  = 8
)

// ring reads a BPF ring buffer. It implements buffer.
type ring struct {
	fd                         int    // descriptor of the map
	consumerPage, producerPage []byte // mappings

	consumer, producer *uint64 // positions, in bytes since the ring was made
	data               *window
	whole              []byte // a record that crosses the end of a mapped part
	mask               uint64
	at                 uint64 // end of the records read, published by release
	crowded            bool   // may have been full before a release, not yet reported by a gap
}

func mapRing(fd int, size uint32) (*ring, error) {
	page := os.Getpagesize()
	c, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	p, err := unix.Mmap(fd, int64(page), page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(c)
		return nil, fmt.Errorf("map ring: %w", err)
	}
	r := newRing(c, p, &window{fd: fd, before: 2 * int64(page), size: uint64(page)}, size)
	r.fd = fd
	// Map a page to detect a failure. The first read maps the rest, as opening can already be
	// the peak of the process's memory.
	if r.data.from(0); r.data.err != nil {
		r.close()
		return nil, fmt.Errorf("map ring's data: %w", r.data.err)
	}
	r.data.unmap()
	r.data.size = min(uint64(size), windowSize)
	return r, nil
}

func newRing(consumerPage, producerPage []byte, data *window, size uint32) *ring {
	r := &ring{
		consumerPage: consumerPage,
		producerPage: producerPage,
		consumer:     (*uint64)(unsafe.Pointer(&consumerPage[0])),
		producer:     (*uint64)(unsafe.Pointer(&producerPage[0])),
		data:         data,
		mask:         uint64(size) - 1,
	}
	r.at = atomic.LoadUint64(r.consumer)
	return r
}

// next returns the next record, or nil if no complete one is queued. The record is valid until the
// next call of next on this ring or a copy of the ring. A position or length that does not fit, or
// an error of the window, ends the ring.
func (r *ring) next() []byte {
	for {
		end := atomic.LoadUint64(r.producer)
		queued := end - r.at
		if queued < recordHeader || queued > r.mask+1 {
			return nil
		}
		head := r.data.from(r.at & r.mask)
		if head == nil {
			return nil
		}
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&head[0])))
		if header&recordBusy != 0 {
			return nil
		}
		length := uint64(header &^ (recordBusy | recordDiscard))
		size := (length + recordHeader + 7) &^ 7
		if size > queued {
			return nil
		}
		start := r.at + recordHeader
		r.at += size
		if header&recordDiscard != 0 {
			continue
		}
		if record := head[recordHeader:]; length <= uint64(len(record)) {
			return record[:length:length]
		}
		return r.join(start, length)
	}
}

// join returns the bytes at a position that extend over several parts of the data.
func (r *ring) join(start, length uint64) []byte {
	r.whole = r.whole[:0]
	for have := uint64(0); have < length; have = uint64(len(r.whole)) {
		part := r.data.from((start + have) & r.mask)
		if part == nil {
			return nil
		}
		r.whole = append(r.whole, part[:min(uint64(len(part)), length-have)]...)
	}
	return r.whole
}

// release returns the space of the records read so far to the kernel.
func (r *ring) release() {
	before := atomic.SwapUint64(r.consumer, r.at)
	r.crowded = r.crowded || atomic.LoadUint64(r.producer) > before+r.maxFill()
}

// maxFill returns the number of bytes that the ring may hold while it still has room for any
// record.
func (r *ring) maxFill() uint64 {
	return r.mask + 1 - min(uint64(maxRecord), r.mask+1)
}

// FD returns a descriptor that is readable after the reader was woken.
func (r *ring) FD() int { return r.fd }

// peek does not consume the record.
func (r *ring) peek() (ns uint64, ok bool) {
	if !r.pending(false) {
		return 0, false
	}
	ahead := *r
	record := ahead.next()
	if len(record) < 8 {
		return 0, true
	}
	return binary.NativeEndian.Uint64(record), true
}

// pending returns false for filling, as a ring that fills up always wakes the reader.
func (r *ring) pending(filling bool) bool {
	return !filling && atomic.LoadUint64(r.producer) != r.at
}

// fullSince ignores its argument, as all CPUs share the ring.
func (r *ring) fullSince(int) uint64 {
	if r.crowded {
		return 0
	}
	ahead := *r // a copy does not free space
	limit := r.at + r.maxFill()
	var since uint64
	for ahead.at < limit {
		record := ahead.next()
		if len(record) < 8 {
			break
		}
		if ahead.at <= limit {
			since = binary.NativeEndian.Uint64(record)
		}
	}
	return since - min(since, reorder)
}

func (r *ring) markReported() { r.crowded = false }

func (r *ring) err() error { return r.data.err }

func (r *ring) close() error {
	errs := []error{unix.Munmap(r.consumerPage), unix.Munmap(r.producerPage)}
	r.data.unmap()
	return errors.Join(errs...)
}
