package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/internal/clock"
)

// bootClock is the clock of the events, which tests can set.
type bootClock struct {
	procfs.BootClock
	test func() uint64
}

// now returns CLOCK_MONOTONIC, or the time that a test sets.
func (c *bootClock) now() uint64 {
	if c.test != nil {
		return c.test()
	}
	return clock.Monotonic()
}

func newClock() *bootClock { return &bootClock{BootClock: procfs.NewBootClock()} }
