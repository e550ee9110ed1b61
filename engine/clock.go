package engine

import "time"

// Clock tells the time in the clock of the events' stamps.
type Clock struct {
	// Now returns CLOCK_MONOTONIC nanoseconds.
	Now func() uint64

	// BootOffset is CLOCK_BOOTTIME minus CLOCK_MONOTONIC in nanoseconds: the
	// time spent suspended before the engine was opened.
	BootOffset uint64

	// Wall is the wall time at which CLOCK_MONOTONIC was zero. It is measured
	// once: steps of the wall clock after that, and suspends, do not reach the
	// events.
	Wall time.Time

	// WallError bounds the error of Wall at the moment of measuring.
	WallError time.Duration

	// Host is the machine and the boot that the clock is of.
	Host Host
}

// At is the wall time of a CLOCK_MONOTONIC stamp.
func (c *Clock) At(mono uint64) time.Time { return c.Wall.Add(time.Duration(mono)) }

// BootAt is the wall time of a CLOCK_BOOTTIME stamp such as Task.Start.
func (c *Clock) BootAt(boot uint64) time.Time {
	return c.Wall.Add(time.Duration(boot) - time.Duration(c.BootOffset))
}
