package ebpf

import "github.com/quark-linux/quark/backends/source"

// Options are those of this source alone. The zero value is right for most.
type Options struct {
	// RingSize is the size in bytes of the ring that all CPUs write to,
	// rounded up to a power of two and at least one page. 0 means 512 KiB for
	// each possible CPU, between 4 MiB and 64 MiB. Set it larger where the
	// reader may stop for long, smaller only to provoke loss.
	RingSize int
}

// Validate returns a *source.OptionError if a value can't be used.
func (o *Options) Validate() error {
	_, err := o.ringSize(1)
	return err
}

const (
	ringPerCPU = 512 << 10
	minRing    = 4 << 20
	maxRing    = 64 << 20
)

// ringSize returns the size of the ring for a number of possible CPUs.
func (o *Options) ringSize(cpus int) (int, error) {
	return source.RingSize(o.RingSize, min(max(ringPerCPU*cpus, minRing), maxRing))
}

// maxSlots bounds the kernel memory of the scratch slots: 41 KiB each.
const maxSlots = 256

// slotCount returns how many records of variable length can be built at once: one for each
// running program, and one for each program that is preempted before its end.
func slotCount(cpus int) uint32 { return uint32(min(2*cpus+16, maxSlots)) }
