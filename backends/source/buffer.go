package source

import "fmt"

// Buffer is how the records of the eBPF programs come to user space.
type Buffer uint8

const (
	// BufferAuto is the BPF ring, which all CPUs write to (Linux 5.8), and where there is none
	// BufferPerf.
	BufferAuto Buffer = iota
	// BufferPerf is perf buffers, one for each CPU. It costs more.
	BufferPerf

	numBuffers = iota
)

// Validate returns an *engine.OptionError if b has no meaning.
func (b Buffer) Validate() error {
	if b < numBuffers {
		return nil
	}
	return wrong("Buffer", uint8(b), fmt.Errorf("it must be BufferAuto (%d) or BufferPerf (%d)", BufferAuto, BufferPerf))
}
