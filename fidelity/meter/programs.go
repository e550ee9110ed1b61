package meter

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// RunTime returns the total run time of eBPF programs. The kernel counts it while CountRunTime is
// active.
func RunTime(programs []ebpf.ProgramID) (sum time.Duration) {
	for _, id := range programs {
		program, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it was unloaded
		}
		if s, err := program.Stats(); err == nil {
			sum += s.Runtime
		}
		program.Close()
	}
	return sum
}

// CountRunTime enables the kernel's count of eBPF run time until the result is closed. Counting
// itself costs time.
func CountRunTime() (io.Closer, error) {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err == nil {
		return c, nil
	}
	before, sysctlErr := os.ReadFile(statsSysctl)
	if sysctlErr == nil {
		sysctlErr = os.WriteFile(statsSysctl, []byte("1"), 0)
	}
	if sysctlErr != nil {
		return nil, fmt.Errorf("enable the kernel's count of eBPF run time: %w; %w", err, sysctlErr)
	}
	return restoreSysctl(before), nil
}

// statsSysctl enables the count on kernels before 5.8, which lack the system call for it.
const statsSysctl = "/proc/sys/kernel/bpf_stats_enabled"

// restoreSysctl is an earlier value of statsSysctl, which Close restores.
type restoreSysctl []byte

func (value restoreSysctl) Close() error { return os.WriteFile(statsSysctl, value, 0) }
