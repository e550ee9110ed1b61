package cnproc

import (
	"time"

	"github.com/quark-linux/quark/engine"
	sysclock "github.com/quark-linux/quark/internal/clock"
)

// clock converts CLOCK_MONOTONIC to CLOCK_BOOTTIME.
type clock struct {
	base   time.Time
	mono   uint64 // CLOCK_MONOTONIC at base
	offset uint64 // BOOTTIME - MONOTONIC, or less: the time spent in suspend
	before uint64 // the offset before the latest update
}

func newClock() *clock {
	c := &clock{base: time.Now(), mono: sysclock.Monotonic()}
	c.update()
	c.update()
	return c
}

// now returns CLOCK_MONOTONIC without a system call: Go's monotonic time is that clock.
func (c *clock) now() uint64 { return c.mono + uint64(time.Since(c.base)) }

func (c *clock) update() {
	boot := sysclock.Boottime()
	c.note(boot, sysclock.Monotonic())
}

// note takes a reading of CLOCK_BOOTTIME and one of CLOCK_MONOTONIC after it. However much
// time passed between them, the difference is at most the time spent in suspend, which
// never shrinks. A larger offset would let the next process of a pid pass for the first.
func (c *clock) note(boot, mono uint64) {
	c.before = c.offset
	if boot > mono {
		c.offset = max(c.offset, boot-mono)
	}
}

// boot converts a stamp. The stamp may be of before a suspend that ended after the update
// before the last: the smaller offset is then right, and it is the safe one otherwise,
// because a process is rather taken for a later one.
func (c *clock) boot(mono uint64) uint64 { return mono + min(c.offset, c.before) }

// startedBy reports whether a process with this start time, of /proc, can have existed at
// the time of a stamp.
func (c *clock) startedBy(start, mono uint64) bool {
	return start/engine.ProcStartUnit <= c.boot(mono)/engine.ProcStartUnit
}

// startedBefore reports whether a process with this start time, of /proc, is certain to be
// older than one that was made at the time of a stamp. A start time of 0 is unknown.
func (c *clock) startedBefore(start, mono uint64) bool {
	return start != 0 && start/engine.ProcStartUnit < c.boot(mono)/engine.ProcStartUnit
}
