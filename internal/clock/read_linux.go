package clock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const monotonic, boottime, realtime = unix.CLOCK_MONOTONIC, unix.CLOCK_BOOTTIME, unix.CLOCK_REALTIME

// read cannot fail for these clocks. Its system call does not block, so it bypasses Go's scheduler.
func read(id uintptr) uint64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return uint64(ts.Nano())
}

// Tick returns the largest lag of the kernel's coarse clocks, which are cheaper to read. It is one
// period of the timer interrupt.
func Tick() uint64 {
	var ts unix.Timespec
	if unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return 10_000_000 // the longest possible
	}
	return uint64(ts.Nano())
}
