package engine_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
)

// The memory of a burst of processes is released when they have left the table and few processes
// come.
func TestBurstIsGivenBack(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: time.Second})
	pid := uint32(2)
	lives := func(n int, each time.Duration) {
		for range n {
			events := life()
			for i := range events {
				events[i].PID, events[i].Time, events[i].Task.Start = pid, r.clock.Now()+uint64(i), r.clock.Now()
				events[i].Args = fmt.Appendf(nil, "%01000d", pid)
			}
			r.src.Push(events...)
			pid++
			r.clock.Advance(each)
			for _, err := r.Get(); err == nil; _, err = r.Get() {
			}
		}
		r.drain(t)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	lives(5, 3*time.Second)
	before := heap()
	for range 5 {
		lives(3000, time.Microsecond) // the buffer holds them all
	}
	during := heap() - before
	lives(5, 3*time.Second)
	after := heap() - before
	if t.Logf("%d KiB more after the burst, %d KiB later", during>>10, after>>10); during < 8<<20 || after > 256<<10 {
		t.Errorf("got %d of %d KiB in use after the burst, want at most 256", after>>10, during>>10)
	}
	runtime.KeepAlive(r)
}
