//go:build linux

// Package features lists the needs of each backend: the feature of the kernel, the first Linux that
// has it, and the loss without it. The backends do not use the list, as they probe for the
// features. It is documentation that a test compares with every kernel on which quark is tested.
package features

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/btfhub"
)

// feature is something that a backend needs of a kernel.
type feature struct {
	Backend string
	Name    string

	// Since is the first Linux that has it, as a version x.y.
	Since string

	// Without names the loss without it; "" means the backend.
	Without string

	// Probe looks for the feature in the running kernel, as root. It returns nil if it is
	// there, an error that wraps errors.ErrUnsupported if it is not, and another error if that
	// is unknown.
	Probe func() error

	// Built returns the configuration for which a kernel of any version may lack the feature,
	// or "". It may be nil.
	Built func() string
}

// The substitutes for the ring, and where they are needed.
const (
	viaPerf     = "one ring of all CPUs: records come through perf buffers"
	withoutRing = "the backend where there is no ring buffer"
)

const snapshot = "the program that describes the processes that exist: /proc does"

// table lists what the backends need.
var table = []feature{
	{Backend: "ebpf", Name: "programs on raw tracepoints", Since: "4.17", Probe: program(ebpf.RawTracepoint)},
	{Backend: "ebpf", Name: "map: ring buffer", Since: "5.8", Without: viaPerf, Probe: mapType(ebpf.RingBuf)},
	{Backend: "ebpf", Name: "map: perf event array", Since: "4.3", Without: withoutRing, Probe: mapType(ebpf.PerfEventArray)},
	{Backend: "ebpf", Name: "maps that can be mapped", Since: "5.5", Without: "reading without privileges",
		Probe: unlimited(func() error { return features.HaveMapFlag(features.BPF_F_MMAPABLE) })},
	{Backend: "ebpf", Name: "map: stack", Since: "4.20", Probe: mapType(ebpf.Stack)},
	{Backend: "ebpf", Name: "map: program array", Since: "4.2", Probe: mapType(ebpf.ProgramArray)},
	{Backend: "ebpf", Name: "map: LRU hash", Since: "4.10", Probe: mapType(ebpf.LRUHash)},
	// Before 5.5 the loader calls probe_read and probe_read_str instead of these four.
	{Backend: "ebpf", Name: "helper: probe_read_kernel", Since: "4.17", Probe: helper(ebpf.RawTracepoint, asm.FnProbeReadKernel)},
	{Backend: "ebpf", Name: "helper: probe_read_kernel_str", Since: "4.17", Probe: helper(ebpf.RawTracepoint, asm.FnProbeReadKernelStr)},
	{Backend: "ebpf", Name: "helper: probe_read_user", Since: "4.17", Probe: helper(ebpf.RawTracepoint, asm.FnProbeReadUser)},
	{Backend: "ebpf", Name: "helper: probe_read_user_str", Since: "4.11", Without: "failed execs", Probe: helper(ebpf.TracePoint, asm.FnProbeReadUserStr)},
	{Backend: "ebpf", Name: "helper: get_current_pid_tgid", Since: "4.2", Probe: helper(ebpf.RawTracepoint, asm.FnGetCurrentPidTgid)},
	{Backend: "ebpf", Name: "helper: ringbuf_reserve", Since: "5.8", Without: viaPerf, Probe: helper(ebpf.RawTracepoint, asm.FnRingbufReserve)},
	{Backend: "ebpf", Name: "helper: ringbuf_output", Since: "5.8", Without: viaPerf, Probe: helper(ebpf.RawTracepoint, asm.FnRingbufOutput)},
	{Backend: "ebpf", Name: "helper: ringbuf_query", Since: "5.8", Without: viaPerf, Probe: helper(ebpf.RawTracepoint, asm.FnRingbufQuery)},
	{Backend: "ebpf", Name: "helper: perf_event_output", Since: "4.17", Without: withoutRing, Probe: helper(ebpf.RawTracepoint, asm.FnPerfEventOutput)},
	{Backend: "ebpf", Name: "programs on tracepoints", Since: "4.7", Without: "changes of ids, tracers, failed execs", Probe: program(ebpf.TracePoint),
		Built: noSyscallEvents},
	{Backend: "ebpf", Name: "helper: get_current_task_btf", Since: "5.11", Without: "failed execs whose beginning no program sees",
		Probe: helper(ebpf.TracePoint, asm.FnGetCurrentTaskBtf)},
	{Backend: "ebpf", Name: "helper: task_pt_regs", Since: "5.15", Without: "failed execs whose beginning no program sees",
		Probe: helper(ebpf.TracePoint, asm.FnTaskPtRegs)},
	{Backend: "ebpf", Name: "programs on kprobes", Since: "4.1", Without: "changes of ids and tracers where there are no tracepoints of system calls",
		Probe: program(ebpf.Kprobe), Built: noKprobes},
	{Backend: "ebpf", Name: "programs on iterators", Since: "5.8", Without: snapshot, Probe: unlimited(iterator)},
	{Backend: "ebpf", Name: "helper: loop", Since: "5.17", Without: snapshot, Probe: helper(ebpf.RawTracepoint, asm.FnLoop)},
	{Backend: "ebpf", Name: "function: bpf_rdonly_cast", Since: "6.2", Without: "time: each read of the kernel's memory is a call", Probe: cast, Built: noTypes},

	{Backend: "kprobe", Name: "probe of a function", Since: "4.1", Probe: probe(""), Built: noKprobes},
	{Backend: "kprobe", Name: "fetch: a chain of dereferences", Since: "4.1", Probe: probe("a=+0(+8(+8(%ARG))):u32"), Built: noKprobes},
	{Backend: "kprobe", Name: "fetch: bits of a word", Since: "4.1", Probe: probe("a=+8(%ARG):b1@2/32"), Built: noKprobes},
	{Backend: "kprobe", Name: "fetch: string", Since: "4.1", Probe: probe("a=+0(+8(%ARG)):string"), Built: noKprobes},
	{Backend: "kprobe", Name: "fetch: array", Since: "4.20", Without: "nothing, but each value is an argument of its own, and arguments take twice the probes",
		Probe: probe("a=+0(%ARG):x64[8]"), Built: noKprobes},
	{Backend: "kprobe", Name: "fetch: word of the definition", Since: "5.4", Without: "arguments from 4.20 on; before, those after eight empty ones",
		Probe: probe(`a=\0x12`), Built: noKprobes},

	{Backend: "cnproc", Name: "events of the proc connector", Since: "2.6", Probe: connector},

	{Backend: "audit", Name: "rules for system calls", Since: "3.16", Probe: auditRules, Built: noAudit},

	{Backend: "exitsnoop", Name: "map that user space maps", Since: "5.5", Probe: unlimited(mmapable)},
	{Backend: "exitsnoop", Name: "helper: get_ns_current_pid_tgid", Since: "5.7", Probe: helper(ebpf.RawTracepoint, asm.FnGetNsCurrentPidTgid)},
	{Backend: "exitsnoop", Name: "pidfd_open", Since: "5.3", Probe: pidfd},
}

func program(t ebpf.ProgramType) func() error {
	return unlimited(func() error { return features.HaveProgramType(t) })
}

func mapType(t ebpf.MapType) func() error {
	return unlimited(func() error { return features.HaveMapType(t) })
}

func helper(t ebpf.ProgramType, f asm.BuiltinFunc) func() error {
	return unlimited(func() error { return features.HaveProgramHelper(t, f) })
}

// cast looks for the function among the kernel's own types.
func cast() error {
	types, err := btf.LoadKernelSpec()
	if err == nil {
		_, err = types.AnyTypeByName("bpf_rdonly_cast")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return nil
}

// noTypes returns the reason if the kernel has no types of its own, else "".
func noTypes() string {
	if _, err := os.Stat(btfhub.KernelBTF); err != nil {
		return "built without CONFIG_DEBUG_INFO_BTF: " + err.Error()
	}
	return ""
}

// mmapable makes a map that could be mapped into memory.
func mmapable() error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return err
	}
	return m.Close()
}

// iterator probes with one, as library features does with a program on a function, which some
// kernels refuse.
func iterator() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return err
	}
	return p.Close()
}

// unlimited first lifts the limit on locked memory if it can. Before 5.11 programs and maps count
// against it, even for a while after they are gone, and the error would look like a missing
// feature.
func unlimited(probe func() error) func() error {
	return func() error {
		_ = rlimit.RemoveMemlock()
		err := probe()
		if errors.Is(err, ebpf.ErrNotSupported) {
			err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		return err
	}
}
