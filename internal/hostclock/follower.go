// Package hostclock measures the offsets between the clocks of this machine and follows their
// changes: suspends, settimeofday(2) and the slewing of NTP.
package hostclock

import (
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

const (
	// interval is the time between two comparisons of the clocks while events are read.
	interval = uint64(time.Second)

	// tolerance is the change of an offset that is ignored.
	tolerance = time.Millisecond
)

// Follower keeps the offsets of an [engine.Clock] up to date. Unlike its clock it is not safe for
// concurrent use.
type Follower struct {
	clock   *engine.Clock
	alarm   alarm
	checked uint64 // when Follow last returned, CLOCK_MONOTONIC
	due     uint64 // when the clocks are compared again
	measure func() engine.Offset
}

// New measures the clocks.
func New() *Follower {
	f := &Follower{measure: measure, alarm: newAlarm()}
	now := clock.Monotonic()
	f.clock = engine.NewClock(clock.Monotonic, thisHost(), f.measure())
	f.checked, f.due = now, now+interval
	return f
}

// Clock returns the clock that the follower keeps up to date.
func (f *Follower) Clock() *engine.Clock { return f.clock }

// FD returns a descriptor that polls readable when the wall clock was set or the machine resumed:
// call Follow then. It is -1 if the system has none; then Follow detects such changes within a
// second.
func (f *Follower) FD() int { return f.alarm.fd() }

// Follow compares the clocks if one was set, and otherwise once a second. The new offset holds for
// events since the last call, so call it whenever events are read.
func (f *Follower) Follow() {
	now := clock.Monotonic()
	from := f.checked
	f.checked = now
	if !f.alarm.rang() && now < f.due {
		return
	}
	f.due = now + interval
	old, o := f.clock.Newest(), f.measure()
	if o.From = from; changed(old, o) {
		f.clock.Add(o)
	}
}

// changed reports whether the offsets differ by more than the measurement error.
func changed(old, o engine.Offset) bool {
	slack := tolerance + old.WallError + o.WallError
	return o.Wall.Sub(old.Wall).Abs() > slack || time.Duration(o.Boot-old.Boot).Abs() > slack
}

// Close closes the descriptor.
func (f *Follower) Close() { f.alarm.close() }

// measure compares the clocks. It reads the other clocks between two readings of CLOCK_MONOTONIC.
// The time between these bounds the error, so it uses the shortest attempt.
func measure() engine.Offset {
	var o engine.Offset
	best := time.Duration(1<<63 - 1)
	for range 10 {
		before, boot, now, after := clock.Monotonic(), clock.Boottime(), time.Now(), clock.Monotonic()
		if gap := time.Duration(after - before); gap < best {
			best = gap
			middle := before + (after-before)/2
			o.Wall, o.WallError = now.Round(0).Add(-time.Duration(middle)), gap/2+1
			o.Boot = boot - min(middle, boot)
		}
	}
	if o.Boot < uint64(2*best) {
		o.Boot = 0 // never suspended: only the time between the readings
	}
	return o
}
