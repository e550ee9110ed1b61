package source

import "fmt"

// Buffer selects how records of the eBPF programs reach user space.
type Buffer uint8

const (
	// BufferAuto uses one BPF ring for all CPUs (Linux 5.8), or BufferPerf if the kernel has no
	// BPF ring.
	BufferAuto Buffer = iota
	// BufferPerf uses a perf buffer for each CPU, which costs more.
	BufferPerf

	numBuffers = iota
)

// Validate returns an *engine.OptionError if b is none of the constants.
func (b Buffer) Validate() error {
	if b < numBuffers {
		return nil
	}
	return wrong("Buffer", uint8(b), fmt.Errorf("it must be BufferAuto (%d) or BufferPerf (%d)", BufferAuto, BufferPerf))
}
