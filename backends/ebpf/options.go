package ebpf

import "github.com/quark-linux/quark/backends/source"

// Options are the options that only this source has.
type Options = source.EBPFOptions

// Validate returns a *engine.OptionError if a value cannot be used.
func Validate(o Options) error {
	if err := o.Buffer.Validate(); err != nil {
		return err
	}
	return source.CheckRingSize(o.RingSize)
}

const (
	ringPerCPU = 512 << 10
	minRing    = 4 << 20
	maxRing    = 64 << 20
)

// ringSize returns the size of the ring for a number of possible CPUs, or the total size of perf
// buffers for a number of online CPUs.
func ringSize(o Options, cpus int) (int, error) {
	return source.RingSize(o.RingSize, min(max(ringPerCPU*cpus, minRing), maxRing))
}

// maxSlots bounds the kernel memory of the scratch slots: 41 KiB each.
const maxSlots = 256

// slotCount returns how many records of variable length can be built at once: one for each
// running program, and one for each program that is preempted before its end.
func slotCount(cpus int) uint32 { return uint32(min(2*cpus+16, maxSlots)) }
