// Package clock reads the kernel's clocks as the nanoseconds that its events are stamped with.
package clock

import (
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's monotonic time is CLOCK_MONOTONIC and is read without a system call: base is at mono, or a
// moment before. So Monotonic is never behind the kernel's clock.
var base, mono = anchor()

func anchor() (at time.Time, mono uint64) {
	shortest := uint64(math.MaxUint64) // of two readings: their distance bounds the error
	for range 5 {
		before, now, after := read(unix.CLOCK_MONOTONIC), time.Now(), read(unix.CLOCK_MONOTONIC)
		if after-before < shortest {
			shortest, at, mono = after-before, now, after
		}
	}
	return at, mono
}

// Monotonic returns CLOCK_MONOTONIC, which stands still during suspend.
func Monotonic() uint64 { return mono + uint64(time.Since(base)) }

// Boottime returns CLOCK_BOOTTIME, which goes on during suspend.
func Boottime() uint64 { return read(unix.CLOCK_BOOTTIME) }

// read can't fail for these clocks. The system call does not block, so that Go's scheduler need
// not know of it.
func read(id uintptr) uint64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}
