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
	c.note(boot, clock.Monotonic())
}

// note compares a reading of CLOCK_BOOTTIME with a later one of CLOCK_MONOTONIC. Their difference
// is at most the time spent in suspend, however much time passed between the readings. The time in
// suspend never shrinks. With a larger offset, the next process of a pid could be taken for the
// first.
func (c *BootClock) note(boot, mono uint64) {
	c.before = c.offset
	if boot > mono {
		c.offset = max(c.offset, boot-mono)
	}
}

// Boot converts a stamp. It uses the smaller of the last two offsets, because the stamp may precede
// the latest suspend. A smaller offset is always safe: at worst a process appears to be a later
// one.
func (c *BootClock) Boot(mono uint64) uint64 { return mono + min(c.offset, c.before) }

// StartedBy reports whether a process with this start time, of /proc, can have existed at
// the time of a stamp.
func (c *BootClock) StartedBy(start, mono uint64) bool {
	return start/engine.ProcStartUnit <= c.Boot(mono)/engine.ProcStartUnit
}

// StartedBefore reports whether a process with this start time, of /proc, is certainly older than a
// process created at the time of a stamp. A start time of 0 is unknown.
func (c *BootClock) StartedBefore(start, mono uint64) bool {
	return start != 0 && start/engine.ProcStartUnit < c.Boot(mono)/engine.ProcStartUnit
}
