// Package stocktest has the test that what a burst took is given back.
package stocktest

import (
	"runtime"
	"testing"
)

// Processes is how many a burst has.
const Processes = 15_000

// Burst fails a test if more than 64 KiB stay of a burst that took at least so many KiB. events has
// n processes come and go in owner, and trims.
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
		t.Errorf("%d KiB stay of %d", after>>10, during>>10)
	}
	runtime.KeepAlive(owner)
}
