//go:build linux

// Package features lists the needs of each backend: the kernel feature, the first Linux version
// with the feature, and what the backend loses without it. The backends probe for features and do
// not use the list. The list is documentation that a test compares with every tested kernel.
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

	"github.com/quark-linux/quark/btfhub"
)

// feature is a kernel feature that a backend needs.
type feature struct {
	Backend string
	Name    string

	// Since is the first Linux version with the feature, as x.y.
	Since string

	// Without describes the loss without the feature; "" means the whole backend.
	Without string

	// Probe checks the running kernel for the feature, as root. It returns nil if the kernel
	// has the feature, an error that wraps errors.ErrUnsupported if the kernel lacks it, and
	// any other error if the result is unknown.
	Probe func() error

	// Built returns the kernel option that the feature needs and the kernel lacks, or "". Nil
	// means that the feature needs no option.
	Built func() string
}

// Losses without the ring buffer and without its replacement.
const (
	viaPerf     = "the ring that all CPUs share: records come through perf buffers"
	withoutRing = "the backend on kernels without a ring buffer"
)

const snapshot = "the program that describes existing processes: /proc is read instead"

// table lists the features that the backends need.
var table = []feature{
	{Backend: "ebpf", Name: "programs on raw tracepoints", Since: "4.17", Probe: probeProgram(ebpf.RawTracepoint)},
	{Backend: "ebpf", Name: "map: ring buffer", Since: "5.8", Without: viaPerf, Probe: probeMapType(ebpf.RingBuf)},
	{Backend: "ebpf", Name: "map: perf event array", Since: "4.3", Without: withoutRing, Probe: probeMapType(ebpf.PerfEventArray)},
	{Backend: "ebpf", Name: "maps that can be mapped", Since: "5.5", Without: "reading without privileges",
		Probe: withoutLockLimit(func() error { return features.HaveMapFlag(features.BPF_F_MMAPABLE) })},
	{Backend: "ebpf", Name: "map: stack", Since: "4.20", Probe: probeMapType(ebpf.Stack)},
	{Backend: "ebpf", Name: "map: program array", Since: "4.2", Probe: probeMapType(ebpf.ProgramArray)},
	{Backend: "ebpf", Name: "map: LRU hash", Since: "4.10", Probe: probeMapType(ebpf.LRUHash)},
	// Before 5.5 the loader calls probe_read and probe_read_str instead of these four helpers.
	{Backend: "ebpf", Name: "helper: probe_read_kernel", Since: "4.17", Probe: probeHelper(ebpf.RawTracepoint, asm.FnProbeReadKernel)},
	{Backend: "ebpf", Name: "helper: probe_read_kernel_str", Since: "4.17", Probe: probeHelper(ebpf.RawTracepoint, asm.FnProbeReadKernelStr)},
	{Backend: "ebpf", Name: "helper: probe_read_user", Since: "4.17", Probe: probeHelper(ebpf.RawTracepoint, asm.FnProbeReadUser)},
	{Backend: "ebpf", Name: "helper: probe_read_user_str", Since: "4.11", Without: "failed execs", Probe: probeHelper(ebpf.TracePoint, asm.FnProbeReadUserStr)},
	{Backend: "ebpf", Name: "helper: get_current_pid_tgid", Since: "4.2", Probe: probeHelper(ebpf.RawTracepoint, asm.FnGetCurrentPidTgid)},
	{Backend: "ebpf", Name: "helper: ringbuf_reserve", Since: "5.8", Without: viaPerf, Probe: probeHelper(ebpf.RawTracepoint, asm.FnRingbufReserve)},
	{Backend: "ebpf", Name: "helper: ringbuf_output", Since: "5.8", Without: viaPerf, Probe: probeHelper(ebpf.RawTracepoint, asm.FnRingbufOutput)},
	{Backend: "ebpf", Name: "helper: ringbuf_query", Since: "5.8", Without: viaPerf, Probe: probeHelper(ebpf.RawTracepoint, asm.FnRingbufQuery)},
	{Backend: "ebpf", Name: "helper: perf_event_output", Since: "4.17", Without: withoutRing, Probe: probeHelper(ebpf.RawTracepoint, asm.FnPerfEventOutput)},
	{Backend: "ebpf", Name: "programs on tracepoints", Since: "4.7", Without: "changes of ids, tracers, failed execs", Probe: probeProgram(ebpf.TracePoint),
		Built: noSyscallEventsReason},
	{Backend: "ebpf", Name: "helper: get_current_task_btf", Since: "5.11", Without: "failed execs whose entry no program sees",
		Probe: probeHelper(ebpf.TracePoint, asm.FnGetCurrentTaskBtf)},
	{Backend: "ebpf", Name: "helper: task_pt_regs", Since: "5.15", Without: "failed execs whose entry no program sees",
		Probe: probeHelper(ebpf.TracePoint, asm.FnTaskPtRegs)},
	{Backend: "ebpf", Name: "programs on kprobes", Since: "4.1", Without: "changes of ids and tracers, on kernels without tracepoints of system calls",
		Probe: probeProgram(ebpf.Kprobe), Built: noKprobesReason},
	{Backend: "ebpf", Name: "programs on iterators", Since: "5.8", Without: snapshot, Probe: withoutLockLimit(loadIterator)},
	{Backend: "ebpf", Name: "helper: loop", Since: "5.17", Without: snapshot, Probe: probeHelper(ebpf.RawTracepoint, asm.FnLoop)},
	{Backend: "ebpf", Name: "function: bpf_rdonly_cast", Since: "6.2", Without: "speed: each read of the kernel's memory is a call", Probe: findCast, Built: noTypesReason},

	{Backend: "kprobe", Name: "probe of a function", Since: "4.1", Probe: probe(""), Built: noKprobesReason},
	{Backend: "kprobe", Name: "fetch: a chain of dereferences", Since: "4.1", Probe: probe("a=+0(+8(+8(%ARG))):u32"), Built: noKprobesReason},
	{Backend: "kprobe", Name: "fetch: bits of a word", Since: "4.1", Probe: probe("a=+8(%ARG):b1@2/32"), Built: noKprobesReason},
	{Backend: "kprobe", Name: "fetch: string", Since: "4.1", Probe: probe("a=+0(+8(%ARG)):string"), Built: noKprobesReason},
	{Backend: "kprobe", Name: "fetch: array", Since: "4.20", Without: "nothing, but each value is a separate argument, and a process's arguments take twice the probes",
		Probe: probe("a=+0(%ARG):x64[8]"), Built: noKprobesReason},
	{Backend: "kprobe", Name: "fetch: word of the definition", Since: "5.4", Without: "arguments from 4.20 on; before 4.20 those after eight empty arguments",
		Probe: probe(`a=\0x12`), Built: noKprobesReason},

	{Backend: "cnproc", Name: "events of the proc connector", Since: "2.6", Probe: listenConnector},

	{Backend: "audit", Name: "rules for system calls", Since: "3.16", Probe: addAuditRules, Built: noAuditReason},

	{Backend: "exitsnoop", Name: "helper: get_ns_current_pid_tgid", Since: "5.7", Probe: probeHelper(ebpf.RawTracepoint, asm.FnGetNsCurrentPidTgid)},
	{Backend: "exitsnoop", Name: "pidfd_open", Since: "5.3", Probe: openPidfd},
}

func probeProgram(t ebpf.ProgramType) func() error {
	return withoutLockLimit(func() error { return features.HaveProgramType(t) })
}

func probeMapType(t ebpf.MapType) func() error {
	return withoutLockLimit(func() error { return features.HaveMapType(t) })
}

func probeHelper(t ebpf.ProgramType, f asm.BuiltinFunc) func() error {
	return withoutLockLimit(func() error { return features.HaveProgramHelper(t, f) })
}

// findCast searches the kernel's own types for bpf_rdonly_cast.
func findCast() error {
	types, err := btf.LoadKernelSpec()
	if err == nil {
		_, err = types.AnyTypeByName("bpf_rdonly_cast")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return nil
}

// noTypesReason returns the reason why the kernel has no types of its own, or "".
func noTypesReason() string {
	if _, err := os.Stat(btfhub.KernelBTF); err != nil {
		return "built without CONFIG_DEBUG_INFO_BTF: " + err.Error()
	}
	return ""
}

// loadIterator loads an iterator program. Package ebpf's own probe would load a program for a
// kernel function, which some kernels reject.
func loadIterator() error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		return err
	}
	return p.Close()
}

// withoutLockLimit removes the limit on locked memory if it can, then calls probe. Before 5.11
// programs and maps count against the limit, even for a while after they are freed. The error would
// look like a missing feature.
func withoutLockLimit(probe func() error) func() error {
	return func() error {
		_ = rlimit.RemoveMemlock()
		err := probe()
		if errors.Is(err, ebpf.ErrNotSupported) {
			err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		return err
	}
}
