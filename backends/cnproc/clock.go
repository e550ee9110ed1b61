package cnproc

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// bootClock converts CLOCK_MONOTONIC to CLOCK_BOOTTIME.
type bootClock struct {
	offset uint64 // BOOTTIME - MONOTONIC, or less: the time spent in suspend
	before uint64 // the offset before the latest update
	test   func() uint64
}

// now returns CLOCK_MONOTONIC, or what a test sets.
func (c *bootClock) now() uint64 {
	if c.test != nil {
		return c.test()
	}
	return clock.Monotonic()
}

func newClock() *bootClock {
	c := new(bootClock)
	c.update()
	c.update()
	return c
}

func (c *bootClock) update() {
	boot := clock.Boottime()
	c.note(boot, clock.Monotonic())
}

// note takes a reading of CLOCK_BOOTTIME and one of CLOCK_MONOTONIC after it. However much
// time passed between them, the difference is at most the time spent in suspend, which
// never shrinks. A larger offset would let the next process of a pid pass for the first.
func (c *bootClock) note(boot, mono uint64) {
	c.before = c.offset
	if boot > mono {
		c.offset = max(c.offset, boot-mono)
	}
}

// boot converts a stamp. The stamp may be of before a suspend that ended after the update
// before the last: the smaller offset is then right, and it is the safe one otherwise,
// because a process is rather taken for a later one.
func (c *bootClock) boot(mono uint64) uint64 { return mono + min(c.offset, c.before) }

// startedBy reports whether a process with this start time, of /proc, can have existed at
// the time of a stamp.
func (c *bootClock) startedBy(start, mono uint64) bool {
	return start/engine.ProcStartUnit <= c.boot(mono)/engine.ProcStartUnit
}

// startedBefore reports whether a process with this start time, of /proc, is certain to be
// older than one that was made at the time of a stamp. A start time of 0 is unknown.
func (c *bootClock) startedBefore(start, mono uint64) bool {
	return start != 0 && start/engine.ProcStartUnit < c.boot(mono)/engine.ProcStartUnit
}
