package meter

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Spent calls f and returns the CPU time that it took on this thread: what the goroutines of f take
// is not in it.
func Spent(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadCPU()
	f()
	return threadCPU() - before
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // cannot fail
	return time.Duration(ts.Nano())
}
