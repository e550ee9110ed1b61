package scenario

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// Brief runs a process that ends at once, on one CPU, and returns its pid and its
// records. Whoever has seen it end has seen all that happened on that CPU before.
func Brief(cpu int) (pid int, records []truth.Record, err error) {
	s := new(bare.Script)
	mask := make([]byte, 1024)
	mask[cpu/8] = 1 << (cpu % 8) // little endian, as amd64 and arm64 are
	s.Call("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, 0, len(mask), mask)
	before := truth.Clock()
	p, err := bare.Start(s.Exit(0), bare.Options{Share: true})
	if err != nil {
		return 0, nil, fmt.Errorf("start a process: %w", err)
	}
	defer p.Free()
	born := truth.Clock()
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(p.PID, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
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

// CPUs returns the CPUs that this process may use.
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
