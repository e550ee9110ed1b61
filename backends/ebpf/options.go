package ebpf

import (
	"fmt"
	"math/bits"
	"os"

	"github.com/cilium/ebpf/btf"
	"github.com/quark-linux/quark/btfhub"
)

// Options say how the source is opened. The zero value is right for most.
type Options struct {
	// RingSize is the size in bytes of the ring that all CPUs write to,
	// rounded up to a power of two and at least one page. 0 means 512 KiB for
	// each possible CPU, between 4 MiB and 64 MiB. Set it larger where the
	// reader may stop for long, smaller only to provoke loss.
	RingSize int

	// Threads reports threads too, not only their groups. It costs an event
	// for each thread.
	Threads bool

	// BTF says where the running kernel's BTF is looked for, such as a file.
	BTF btfhub.Options

	// KernelTypes is the BTF of the running kernel. nil means what
	// btfhub.Open finds by the option above: the kernel's own, or that of the
	// same release in the embedded archive. Types that are not the running kernel's make wrong
	// events.
	KernelTypes *btf.Spec
}

const (
	ringPerCPU  = 512 << 10
	minRing     = 4 << 20
	maxRing     = 64 << 20
	largestRing = 1 << 30 // what the kernel's 32-bit record positions allow for
)

// ringSize returns the size of the ring for a number of possible CPUs.
func (o *Options) ringSize(cpus int) (uint32, error) {
	size := o.RingSize
	switch {
	case size < 0 || size > largestRing:
		return 0, fmt.Errorf("option RingSize is %d: it must be 0 to %d bytes", size, largestRing)
	case size == 0:
		size = min(max(ringPerCPU*cpus, minRing), maxRing)
	}
	size = max(size, os.Getpagesize())
	return 1 << bits.Len(uint(size-1)), nil
}

// maxSlots bounds the kernel memory of the scratch slots: 33 KiB each.
const maxSlots = 256

// slotCount is how many records of variable length can be built at once. One
// is needed for each running program, and for each preempted in its course.
func slotCount(cpus int) uint32 { return uint32(min(2*cpus+16, maxSlots)) }
