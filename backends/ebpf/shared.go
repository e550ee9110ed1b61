package ebpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// control has the variables that both the programs and this process write.
type control struct {
	memory        []byte
	armed, nudged *uint32
	imagesOnly    *uint32
	// plain is nil unless the kernel cannot map the map (before Linux 5.5). Then memory is a
	// copy.
	plain *ebpf.Map
}

// hideMappable is true only in a test.
var hideMappable = false

// openControl makes the programs' zero-initialised data writable. The variables have these offsets
// in the data.
func openControl(data *ebpf.Map, plain bool, armed, nudged, images uint32) (*control, error) {
	size := min(os.Getpagesize(), int(data.ValueSize()))
	if end := max(armed, nudged, images) + 4; int(end) > size || (armed|nudged|images)%4 != 0 {
		return nil, fmt.Errorf("map variables: offsets %d, %d and %d", armed, nudged, images)
	}
	c := &control{}
	if plain {
		c.memory, c.plain = make([]byte, data.ValueSize()), data
	} else {
		var err error
		if c.memory, err = unix.Mmap(data.FD(), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return nil, fmt.Errorf("map variables: %w", err)
		}
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&c.memory[offset])) }
	c.armed, c.nudged, c.imagesOnly = at(armed), at(nudged), at(images)
	return c, nil
}

// set sets one of the variables.
func (c *control) set(variable *uint32, value uint32) {
	atomic.StoreUint32(variable, value)
	if c.plain != nil {
		// The update fails if the process has dropped its privileges and may not call
		// bpf(2). Then reading the counters fails too, and Stats returns that error.
		c.plain.Update(uint32(0), c.memory, ebpf.UpdateAny)
	}
}

func (c *control) unmap() {
	if c.plain == nil {
		unix.Munmap(c.memory)
	}
}

// counters are the programs' counters, by CPU and kind of event.
type counters struct {
	memory []byte
	byCPU  []programsTallies
	plain  *ebpf.Map // see control
	err    error     // error of the last read
}

// openCounters makes the programs' counters readable.
func openCounters(m *ebpf.Map, plain bool) (*counters, error) {
	cpus := int(m.MaxEntries())
	if plain {
		return &counters{byCPU: make([]programsTallies, cpus), plain: m}, nil
	}
	memory, err := unix.Mmap(m.FD(), 0, cpus*int(unsafe.Sizeof(programsTallies{})), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map counters: %w", err)
	}
	return &counters{memory: memory, byCPU: unsafe.Slice((*programsTallies)(unsafe.Pointer(&memory[0])), cpus)}, nil
}

func (c *counters) unmap() {
	if c.memory != nil {
		unix.Munmap(c.memory)
	}
}

// read reads the counters if they are not mapped.
func (c *counters) read() {
	if c.plain == nil {
		return
	}
	for i := range c.byCPU {
		if err := c.plain.Lookup(uint32(i), &c.byCPU[i]); err != nil {
			c.err = fmt.Errorf("read counters: %w: before Linux 5.5 maps cannot be mapped, so the process must keep its privileges", err)
			return
		}
	}
	c.err = nil
}

// sum returns the sum of all counters.
func (c *counters) sum() (st engine.SourceStats, passed, rescued uint64) {
	c.read()
	for i := range c.byCPU {
		// Read losses first, so that the sum never has more lost than produced events.
		lost := c.lost(i)
		st.Lost[engine.LossRingFull] += lost.full
		st.Lost[engine.LossUnseen] += lost.unseen
		for k := range c.byCPU[i].Kind {
			t := &c.byCPU[i].Kind[k]
			st.Lost[engine.LossScratch] += atomic.LoadUint64(&t.NoSlot)
			st.Produced += atomic.LoadUint64(&t.Produced)
			passed += atomic.LoadUint64(&t.Passed)
			rescued += atomic.LoadUint64(&t.Rescued)
		}
	}
	return st, passed, rescued
}

// noRing is NO_RING of programs/record.h.
const noRing = 15

// lost returns the losses that a CPU's counters report.
func (c *counters) lost(cpu int) (l cpuLosses) {
	kinds := &c.byCPU[cpu].Kind
	for k := range kinds {
		if n := atomic.LoadUint64(&kinds[k].RingFull); k == noRing {
			l.unseen += n
		} else {
			l.full += n
		}
	}
	return l
}
