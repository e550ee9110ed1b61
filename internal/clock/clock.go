// Package clock reads the kernel's clocks as the nanoseconds that its events are stamped with.
package clock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Monotonic returns CLOCK_MONOTONIC, which stands still during suspend.
func Monotonic() uint64 { return read(unix.CLOCK_MONOTONIC) }

// Boottime returns CLOCK_BOOTTIME, which goes on during suspend.
func Boottime() uint64 { return read(unix.CLOCK_BOOTTIME) }

// read can't fail for these clocks. The system call does not block, so that Go's scheduler need
// not know of it.
func read(id uintptr) uint64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}
