package quark

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// systemClock measures how CLOCK_MONOTONIC, CLOCK_BOOTTIME and the wall clock
// stand to each other.
func systemClock() (engine.Clock, error) {
	var c engine.Clock
	var base time.Time
	var baseMono uint64
	// The readings are taken between two of CLOCK_MONOTONIC; of some tries the
	// one with the shortest gap counts, which bounds the error.
	best := time.Duration(1<<63 - 1)
	for range 10 {
		before, err := read(unix.CLOCK_MONOTONIC)
		if err != nil {
			return c, err
		}
		boot, err := read(unix.CLOCK_BOOTTIME)
		if err != nil {
			return c, err
		}
		now := time.Now()
		after, err := read(unix.CLOCK_MONOTONIC)
		if err != nil {
			return c, err
		}
		if gap := time.Duration(after - before); gap < best {
			best = gap
			middle := before + (after-before)/2
			c.Wall = now.Round(0).Add(-time.Duration(middle))
			c.WallError = gap/2 + 1
			c.BootOffset = boot - min(middle, boot)
			base, baseMono = now, middle
		}
	}
	if c.BootOffset < uint64(2*best) {
		c.BootOffset = 0 // never suspended: what is left is the time between the readings
	}
	// Go's monotonic clock is CLOCK_MONOTONIC and is read without a system call.
	c.Now = func() uint64 { return baseMono + uint64(time.Since(base)) }
	return c, nil
}

func read(clock int32) (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read clock %d: %w", clock, err)
	}
	return uint64(ts.Nano()), nil
}
