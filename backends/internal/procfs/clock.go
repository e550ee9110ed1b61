package procfs

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// BootClock converts event times, in CLOCK_MONOTONIC, to the clock of start times, CLOCK_BOOTTIME.
// The zero value is right for a machine that was never suspended.
type BootClock struct {
	offset uint64 // BOOTTIME - MONOTONIC, or less: the time spent in suspend
	before uint64 // the offset before the latest update
}

// NewBootClock returns a BootClock of this machine.
func NewBootClock() (c BootClock) {
	c.Update()
	c.Update()
	return c
}

// Update adds the time spent in suspend since the last update.
func (c *BootClock) Update() {
	boot := clock.Boottime()
	c.addReading(boot, clock.Monotonic())
}

// addReading raises the offset to the difference between a reading of CLOCK_BOOTTIME and a later
// one of CLOCK_MONOTONIC. The difference is never more than the time spent in suspend, which never
// shrinks. With too large an offset, the next process with a pid could be taken for the first.
func (c *BootClock) addReading(boot, mono uint64) {
	c.before = c.offset
	if boot > mono {
		c.offset = max(c.offset, boot-mono)
	}
}

// Boot converts a stamp. It uses the smaller of the last two offsets, because the stamp may precede
// the latest suspend. A smaller offset is always safe: at worst a process appears to be a later
// one.
func (c *BootClock) Boot(mono uint64) uint64 { return mono + min(c.offset, c.before) }

// StartedBy reports whether a process with a start time from /proc can have existed at the time
// mono.
func (c *BootClock) StartedBy(start, mono uint64) bool {
	return start/engine.ProcStartUnit <= c.Boot(mono)/engine.ProcStartUnit
}

// StartedBefore reports whether a process with a start time from /proc is certainly older than a
// process created at the time mono. A start time of 0 is unknown.
func (c *BootClock) StartedBefore(start, mono uint64) bool {
	return start != 0 && start/engine.ProcStartUnit < c.Boot(mono)/engine.ProcStartUnit
}
