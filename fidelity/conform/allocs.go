package conform

import (
	"math"
	"runtime"

	"github.com/quark-linux/quark/engine"
)

// LeastAllocs calls call up to tries times, and returns its smallest number of allocations. prepare
// runs before each call. Other goroutines can increase single counts, but rarely all.
func LeastAllocs(tries int, prepare, call func()) uint64 {
	least := uint64(math.MaxUint64)
	for n := 0; n < tries && least > 0; n++ {
		prepare()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		call()
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	return least
}

// Recycler is an [engine.Sink] with unlimited room that reuses events and counts them.
type Recycler struct {
	N    int // number of events
	free []*engine.RawEvent
}

// Room implements engine.Sink.
func (r *Recycler) Room() int { return 1 << 20 }

// Reserve implements engine.Sink.
func (r *Recycler) Reserve() *engine.RawEvent {
	if len(r.free) == 0 {
		ev := new(engine.RawEvent)
		ev.Set(engine.FieldArgs, make([]byte, 4096)) // Reset keeps the memory
		ev.Reset()
		return ev
	}
	ev := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	return ev
}

// Insert implements engine.Sink.
func (r *Recycler) Insert(ev *engine.RawEvent) {
	r.N++
	r.Release(ev)
}

// Release implements engine.Sink.
func (r *Recycler) Release(ev *engine.RawEvent) {
	ev.Reset()
	r.free = append(r.free, ev)
}
