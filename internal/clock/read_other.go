//go:build !linux

package clock

import "time"

const monotonic, boottime, realtime = 0, 0, 0

var start = time.Now()

// read returns the time since the start of this process for each clock, because this system has no
// events of a kernel.
func read(int) uint64 { return uint64(time.Since(start)) }

// Tick returns 0, because this system has no coarse clocks.
func Tick() uint64 { return 0 }
