package main

import (
	"fmt"
	"strconv"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// facts is what /proc shows of a process that stands still.
type facts struct {
	pid int
	// start time in 1/100 s of CLOCK_BOOTTIME
	ticks                           uint64
	value                           [engine.NumFields]string // as text of each field
	comm, exe, cwd, cgroup, cmdline string
}

func (t *test) truth(pid int) *facts {
	v, err := readFacts(pid)
	if err != nil {
		t.Fatalf("read the truth: %v", err)
	}
	return v
}

func readFacts(pid int) (*facts, error) {
	proc, err := truth.OpenProc()
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	_, s, err := proc.Read(strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	f := &facts{
		pid: pid, value: s.Value, comm: s.Value[engine.FieldComm], exe: s.Value[engine.FieldFilename],
		cwd: s.Value[engine.FieldCwd], cgroup: s.Value[engine.FieldCgroup], cmdline: s.Value[engine.FieldCmdline],
	}
	if f.ticks, err = strconv.ParseUint(s.Value[engine.FieldStart], 10, 64); err != nil {
		return nil, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return f, nil
}

// valueOf returns what quark reports of a field, as text that compares with facts.value.
func valueOf(p *engine.Process, f engine.Field) string { return truth.ValueOf(p, f) }
