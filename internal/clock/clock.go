// Package clock reads the kernel's clocks in nanoseconds, the unit of events' times.
package clock

import (
	"math"
	"time"
)

// Go's monotonic time is CLOCK_MONOTONIC, read without a system call. base was read at mono or a
// moment earlier, so Monotonic is never behind the kernel's clock.
var base, mono = anchor()

func anchor() (at time.Time, mono uint64) {
	shortest := uint64(math.MaxUint64) // time between two reads, which bounds the error
	for range 5 {
		before, now, after := read(monotonic), time.Now(), read(monotonic)
		if after-before < shortest {
			shortest, at, mono = after-before, now, after
		}
	}
	return at, mono
}

// Monotonic returns CLOCK_MONOTONIC, which stops during suspend.
func Monotonic() uint64 { return mono + uint64(time.Since(base)) }

// Boottime returns CLOCK_BOOTTIME, which includes suspend.
func Boottime() uint64 { return read(boottime) }

// WallOffset returns CLOCK_REALTIME minus CLOCK_MONOTONIC, from the shortest of several
// measurements. error is the largest error of the result.
func WallOffset() (offset int64, error uint64) {
	error = math.MaxUint64
	for range 5 {
		before := read(monotonic)
		wall := read(realtime)
		after := read(monotonic)
		if half := (after - before + 1) / 2; half < error {
			error, offset = half, int64(wall)-int64(before+half)
		}
	}
	return offset, error
}
