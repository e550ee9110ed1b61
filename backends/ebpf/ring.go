package ebpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first word of a record in the ring (linux/bpf.h): its length and two
// flags. Eight bytes of header precede each record, which starts at a multiple
// of eight.
const (
	recordBusy    = 1 << 31 // still being written
	recordDiscard = 1 << 30 // to be skipped
	recordHeader  = 8
)

// ring is the reader's end of a BPF ring buffer. The kernel would map its data twice in a row, so
// that every record is one slice; but each mapping counts as memory of the process.
type ring struct {
	consumerPage, rest []byte // mappings: one page; the producer's page and the data
	whole              []byte // the record that lies across the end of the data

	consumer, producer *uint64 // positions, in bytes since the ring was made
	data               []byte
	mask               uint64
	at                 uint64 // what was read, published by release
	crowded            bool   // it may have been full before a release, and no gap has told
}

func mapRing(fd int, size uint32) (*ring, error) {
	page := os.Getpagesize()
	c, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring: %w", err)
	}
	p, err := unix.Mmap(fd, int64(page), page+int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(c)
		return nil, fmt.Errorf("map ring's data: %w", err)
	}
	return newRing(c, p, page, size), nil
}

func newRing(consumerPage, rest []byte, page int, size uint32) *ring {
	r := &ring{
		consumerPage: consumerPage,
		rest:         rest,
		consumer:     (*uint64)(unsafe.Pointer(&consumerPage[0])),
		producer:     (*uint64)(unsafe.Pointer(&rest[0])),
		data:         rest[page:],
		mask:         uint64(size) - 1,
	}
	r.at = atomic.LoadUint64(r.consumer)
	return r
}

// next returns the next record, valid until it is called again, or nil if there
// is no complete one. A position or length of the kernel's that does not fit ends the ring.
func (r *ring) next() []byte {
	for {
		end := atomic.LoadUint64(r.producer)
		queued := end - r.at
		if queued < recordHeader || queued > r.mask+1 {
			return nil
		}
		start := r.at & r.mask
		header := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[start])))
		if header&recordBusy != 0 {
			return nil
		}
		length := uint64(header &^ (recordBusy | recordDiscard))
		size := (length + recordHeader + 7) &^ 7
		if size > queued {
			return nil
		}
		r.at += size
		if header&recordDiscard == 0 {
			record := r.data[start+recordHeader:]
			if length <= uint64(len(record)) {
				return record[:length:length]
			}
			r.whole = append(append(r.whole[:0], record...), r.data[:length-uint64(len(record))]...)
			return r.whole
		}
	}
}

// release gives the room of the records read so far back to the kernel.
func (r *ring) release() {
	before := atomic.SwapUint64(r.consumer, r.at)
	r.crowded = r.crowded || atomic.LoadUint64(r.producer) > before+r.roomy()
}

// roomy returns how many bytes can be in the ring so that there is room for every record.
func (r *ring) roomy() uint64 {
	return r.mask + 1 - min(uint64(maxRecord), r.mask+1)
}

// pending reports whether something is queued, be it complete or not.
func (r *ring) pending() bool { return atomic.LoadUint64(r.producer) != r.at }

func (r *ring) unmap() {
	unix.Munmap(r.consumerPage)
	unix.Munmap(r.rest)
}
