package scenario

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

// Brief runs a process that ends at once, on one CPU, and returns its pid and its records. Once an
// ordered queue has delivered the end of this process, it has delivered all earlier events of the
// CPU.
func Brief(cpu int) (pid int, records []truth.Record, err error) {
	before := truth.Clock()
	p, err := bare.Start(new(bare.Script).Pin(cpu).Exit(0), bare.Options{Share: true})
	if err != nil {
		return 0, nil, fmt.Errorf("start a process: %w", err)
	}
	defer p.Free()
	born := truth.Clock()
	status, err := children.Wait(p.PID)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("run a process on CPU %d: %w", cpu, err)
	}
	return p.PID, []truth.Record{
		{Op: truth.Fork, PID: p.PID, Earliest: before, Latest: born},
		{Op: truth.Exit, PID: p.PID, Earliest: before, Latest: truth.Clock(), Status: int32(status)},
	}, nil
}

// CPUs returns the CPUs on which this process may run.
func CPUs() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}
