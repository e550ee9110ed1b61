package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	cebpf "github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Programs is a set of loaded eBPF programs.
type Programs map[cebpf.ProgramID]bool

// loadedPrograms returns all loaded eBPF programs.
func loadedPrograms() (Programs, error) {
	set := make(Programs)
	for id := cebpf.ProgramID(0); ; {
		next, err := cebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return set, nil
		}
		if err != nil {
			return set, fmt.Errorf("list eBPF programs: %w", err)
		}
		id = next
		set[id] = true
	}
}

// since returns the programs that were loaded since these were all.
func (p Programs) since() Programs {
	own := make(Programs)
	now, _ := loadedPrograms() // without the right to list them there are none
	for id := range now {
		if !p[id] {
			own[id] = true
		}
	}
	return own
}

// RunTime returns their total run time, which the kernel counts while CountRunTime lets it.
func (p Programs) RunTime() (sum time.Duration) {
	for id := range p {
		program, err := cebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		if s, err := program.Stats(); err == nil {
			sum += s.Runtime
		}
		program.Close()
	}
	return sum
}

// CountRunTime lets the kernel count the run time of eBPF programs, which costs time itself, until
// the result is closed.
func CountRunTime() (io.Closer, error) {
	c, err := cebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err == nil {
		return c, nil
	}
	was, sysctlErr := os.ReadFile(statsSysctl)
	if sysctlErr == nil {
		sysctlErr = os.WriteFile(statsSysctl, []byte("1"), 0)
	}
	if sysctlErr != nil {
		return nil, fmt.Errorf("let the kernel measure eBPF programs: %w; %w", err, sysctlErr)
	}
	return sysctlAsBefore(was), nil
}

// statsSysctl lets the kernel measure all programs, also before Linux 5.8, which has a call for it.
const statsSysctl = "/proc/sys/kernel/bpf_stats_enabled"

// sysctlAsBefore is what statsSysctl was, and sets it to that when it is closed.
type sysctlAsBefore []byte

func (was sysctlAsBefore) Close() error { return os.WriteFile(statsSysctl, was, 0) }
