package ebpf

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

// control is the variables that the programs and this process write.
type control struct {
	memory        []byte
	armed, nudged *uint32
	imagesOnly    *uint32
	scoped        *uint32
}

// mapControl maps the programs' zero-initialised data, in which the variables have these offsets.
func mapControl(fd int, armed, nudged, images, scoped uint32) (*control, error) {
	page := os.Getpagesize()
	if end := max(armed, nudged, images, scoped) + 4; int(end) > page || (armed|nudged|images|scoped)%4 != 0 {
		return nil, fmt.Errorf("map variables: offsets %d, %d, %d and %d", armed, nudged, images, scoped)
	}
	m, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map variables: %w", err)
	}
	at := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&m[offset])) }
	return &control{m, at(armed), at(nudged), at(images), at(scoped)}, nil
}

func (c *control) unmap() { unix.Munmap(c.memory) }

// counters are the programs' counters by CPU and kind of event.
type counters struct {
	memory []byte
	byCPU  []programsTallies
}

func mapCounters(fd, cpus int) (*counters, error) {
	m, err := unix.Mmap(fd, 0, cpus*int(unsafe.Sizeof(programsTallies{})), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map counters: %w", err)
	}
	return &counters{m, unsafe.Slice((*programsTallies)(unsafe.Pointer(&m[0])), cpus)}, nil
}

func (c *counters) unmap() { unix.Munmap(c.memory) }

func (c *counters) sum() (st engine.SourceStats, passed, rescued uint64) {
	for i := range c.byCPU {
		for k := range c.byCPU[i].Kind {
			t := &c.byCPU[i].Kind[k]
			// Losses first: the sum never has more lost than produced.
			st.Lost[engine.LossRingFull] += atomic.LoadUint64(&t.RingFull)
			st.Lost[engine.LossScratch] += atomic.LoadUint64(&t.NoSlot)
			st.Produced += atomic.LoadUint64(&t.Produced)
			passed += atomic.LoadUint64(&t.Passed)
			rescued += atomic.LoadUint64(&t.Rescued)
		}
	}
	return st, passed, rescued
}
