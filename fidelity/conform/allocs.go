package conform

import (
	"math"
	"runtime"

	"github.com/quark-linux/quark/engine"
)

// LeastAllocs returns how many allocations a call makes at least, of so many tries, fewer if one
// makes none. Before each prepare gives it something to do. What other goroutines allocate
// meanwhile, and what others do on the machine, makes some calls seem to make more.
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

// Recycler is an [engine.Sink] with room for all, which takes the same events again and counts
// them.
type Recycler struct {
	N    int // events
	free []*engine.RawEvent
}

// Room implements engine.Sink.
func (r *Recycler) Room() int { return 1 << 20 }

// Reserve implements engine.Sink.
func (r *Recycler) Reserve() *engine.RawEvent {
	if len(r.free) == 0 {
		ev := new(engine.RawEvent)
		ev.Set(engine.FieldCmdline, make([]byte, 4096)) // it keeps the room
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
