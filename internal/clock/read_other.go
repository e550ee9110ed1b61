//go:build !linux

package clock

import "time"

const monotonic, boottime, realtime = 0, 0, 0

var start = time.Now()

// read returns the time since the start of the process for each clock, as no kernel stamps events
// here.
func read(int) uint64 { return uint64(time.Since(start)) }

// Tick returns a period of the timer interrupt: no kernel has one here.
func Tick() uint64 { return 0 }
