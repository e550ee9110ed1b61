// Package freelisttest tests that the memory of a burst is released.
package freelisttest

import (
	"runtime"
	"testing"
)

// Processes is the number of processes of a burst.
const Processes = 15_000

// Burst fails a test if more than 64 KiB remain after a burst that took at least the given number
// of KiB. events lets n processes start and end in owner, and trims.
func Burst(t *testing.T, owner any, least int64, events func(n uint32)) {
	t.Helper()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	few := func() {
		for range 4 {
			events(10)
		}
	}
	few()
	before := heap()
	events(Processes)
	during := heap() - before
	few()
	after := heap() - before
	t.Logf("%d KiB more right after the burst, %d KiB later", during>>10, after>>10)
	if during < least<<10 || after > 64<<10 {
		t.Errorf("%d of %d KiB were not released", after>>10, during>>10)
	}
	runtime.KeepAlive(owner)
}
