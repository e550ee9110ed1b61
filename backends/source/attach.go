package source

import (
	"fmt"
	"strings"
)

// Attach is how the eBPF programs that report forks, execs, ends and new names are attached.
type Attach uint8

const (
	// AttachRaw is to raw tracepoints. It needs no types of the kernel's own, and works on all
	// kernels. On all of them it has a second program for each event, for what the kernel skips
	// the first for.
	AttachRaw Attach = iota
	// AttachBTF is to the same tracepoints, with types (tp_btf). The kernel needs types of its
	// own, CONFIG_DEBUG_INFO_BTF. There are second programs from Linux 7.0 on.
	AttachBTF
	// AttachFEntry is to the entries of functions near these tracepoints (fentry). The kernel
	// needs types of its own, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS and CONFIG_PROC_EVENTS.
	// There are second programs from Linux 7.0 on.
	AttachFEntry
	// AttachTracepoint is to plain tracepoints, by perf_event_open(2). The record of a fork
	// tells its ids and its name alone.
	AttachTracepoint

	numAttaches = iota
)

var attachNames = [numAttaches]string{"raw", "btf", "fentry", "tracepoint"}

// String returns the name, as in that of the backend: ebpf:btf.
func (a Attach) String() string {
	if a < numAttaches {
		return attachNames[a]
	}
	return fmt.Sprintf("attach(%d)", uint8(a))
}

// Validate returns an *engine.OptionError if a has no meaning.
func (a Attach) Validate() error {
	if a < numAttaches {
		return nil
	}
	return wrong("Attach", uint8(a), fmt.Errorf("it must be one of %s (%d to %d)", strings.Join(attachNames[:], ", "), 0, numAttaches-1))
}
