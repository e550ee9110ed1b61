package ebpf

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// window is the part of a ring's data that is mapped. The kernel can map a ring twice in a row, so
// that every record is one slice. But each mapping counts as memory of the process, and most of a
// large ring is unused until a burst of events.
type window struct {
	fd     int
	before int64  // offset of the data in the file
	size   uint64 // of a part, a power of two
	start  uint64 // of the mapped part, from the beginning of the data
	part   []byte // nil before the first call of from
	err    error  // the reason why a move failed
}

// windowSize is small, as all pages of the window count as memory. Moves map each page of the ring
// anew, however large the window is. They take 0.2 us per process.
const windowSize = 256 << 10

// from returns the data from an offset to the end of the part that has the offset. The data is
// valid until the next call. If the part cannot be mapped, this and all later calls return nil.
func (w *window) from(at uint64) []byte {
	if in := at - w.start; in < uint64(len(w.part)) {
		return w.part[in:]
	}
	return w.move(at)
}

// move maps the part that has the offset, in place of the current part.
func (w *window) move(at uint64) []byte {
	if w.err != nil {
		return nil
	}
	start := at &^ (w.size - 1)
	if err := w.mapAt(w.before + int64(start)); err != nil {
		w.err = fmt.Errorf("map a part: %w", err)
		return nil
	}
	w.start = start
	return w.part[at-start:]
}

// mapAt maps the part at an offset of the file. From the second call on, its system call bypasses
// Go's scheduler, as in countSkips. It does not block.
func (w *window) mapAt(offset int64) (err error) {
	if w.part == nil {
		w.part, err = unix.Mmap(w.fd, offset, int(w.size), unix.PROT_READ, unix.MAP_SHARED)
		return err
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(&w.part[0])), uintptr(w.size), unix.PROT_READ,
		unix.MAP_SHARED|unix.MAP_FIXED, uintptr(w.fd), uintptr(offset))
	if errno != 0 {
		// The kernel may have unmapped the memory, and other code may have mapped it again.
		w.part = nil
		return errno
	}
	return nil
}

func (w *window) unmap() {
	if w.part != nil {
		unix.Munmap(w.part)
		w.part = nil
	}
}
