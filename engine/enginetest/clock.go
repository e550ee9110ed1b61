package enginetest

import (
	"time"

	"github.com/quark-linux/quark/engine"
)

// Clock is a clock that only Advance moves. It starts at one second.
type Clock struct{ now uint64 }

// NewClock returns a clock that shows one second of CLOCK_MONOTONIC.
func NewClock() *Clock { return &Clock{now: uint64(time.Second)} }

// Now returns CLOCK_MONOTONIC nanoseconds.
func (c *Clock) Now() uint64 { return c.now }

// Advance moves the clock forward by d.
func (c *Clock) Advance(d time.Duration) { c.now += uint64(d) }

// Engine returns the clock in the form for engine.New. Its wall time zero is the epoch, and the
// machine was never suspended.
func (c *Clock) Engine() *engine.Clock {
	return engine.NewClock(c.Now, engine.Host{}, engine.Offset{Wall: time.Unix(0, 0)})
}
