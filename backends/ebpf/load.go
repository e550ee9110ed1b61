package ebpf

import (
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
)

// object contains the compiled programs. A string takes no memory before it is read, unlike the
// byte slice of the generated loadPrograms.
//
//go:embed programs_bpfel.o
var object string

// environRoom is the part of a slot that only the environment uses. It begins after the texts and
// the longest name.
const environRoom = 20480 - 256 // ENVIRON_MAX, NAME_MAX

// loader loads programs in groups, so that a refused or unneeded program affects only its group.
// All groups share the maps.
type loader struct {
	spec  *ebpf.CollectionSpec
	types *btf.Spec
	maps  map[string]*ebpf.Map

	options Options
	perf    string // see perfReason
	plain   bool   // the kernel cannot map maps into memory
	low     bool   // loops have the limits lowLimits

	// iterator is the id of bpf_iter_task, or 0 if the snapshot comes from /proc.
	iterator btf.TypeID

	// cast is the id of bpf_rdonly_cast, or 0 if programs read by calls. bytes is the type that
	// cast casts to.
	cast, bytes btf.TypeID

	// execCalls is added to the maps of spec once programs need it.
	execCalls *ebpf.MapSpec
}

// newLoader sets the constants and sizes that are fixed before the first program is loaded.
func newLoader(o *Options, shared *source.Options, kernel *btfhub.Kernel, cpus int, cgroup programsCgroupSource) (*loader, error) {
	size, err := ringSize(*o, cpus)
	if err != nil {
		return nil, err
	}
	// Before Linux 5.11 maps count against the limit on locked memory, even for a while after
	// they are freed, and cilium/ebpf mistakes the limit for missing features. Loading may
	// succeed without a higher limit, so an error here has no effect.
	_ = rlimit.RemoveMemlock()
	compiled, perf := object, perfReason(o)
	if perf != "" {
		compiled = perfObject
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(strings.NewReader(compiled))
	if err != nil {
		return nil, fmt.Errorf("load programs' object: %w", err)
	}
	l := &loader{spec: spec, types: kernel.Spec, maps: map[string]*ebpf.Map{}, options: *o, perf: perf, execCalls: spec.Maps[programsMapExecCalls]}
	delete(spec.Maps, programsMapExecCalls)
	l.findCast(kernel)
	if cgroup != programsCgroupSourceCGROUP_PIDS { // the names of cgroup v1 are not stable
		l.iterator = kernel.TaskIterator
	}
	if perf == "" {
		spec.Maps[programsMapRing].MaxEntries = uint32(size)
	} else if err := l.prepareForPerf(); err != nil {
		return nil, err
	}
	spec.Maps[programsMapSlots].MaxEntries = slotCount(cpus) + 1
	spec.Maps[programsMapFreeSlots].MaxEntries = slotCount(cpus)
	spec.Maps[programsMapCounters].MaxEntries = uint32(cpus)
	if !shared.Environ.Wanted() {
		slots := spec.Maps[programsMapSlots]
		// The kernel compares ValueSize with the size in the types.
		slots.ValueSize, slots.Key, slots.Value = slots.ValueSize-environRoom, nil, nil
	}
	at := registers[runtime.GOARCH]
	return l, errors.Join(
		l.set(programsVarArgumentOffset, at.argument),
		l.set(programsVarSecondArgumentOffset, at.second),
		l.set(programsVarResultOffset, at.result),
		l.set(programsVarFirstOffset, at.first),
		l.set(programsVarWantThreads, shared.Threads),
		l.set(programsVarExitBits, exitBits(shared)),
		l.set(programsVarCgroupFrom, uint32(cgroup)),
		l.set(programsVarWantEnviron, shared.Environ.Wanted()),
		l.set(programsVarSnapshotSlot, slotCount(cpus)),
		l.set(programsVarWakeLevel, uint64(size/4)),
	)
}

// prepareForPerf sets up the maps for perf buffers, and for a kernel that cannot map maps into
// memory.
func (l *loader) prepareForPerf() error {
	l.plain = hideMappable || errors.Is(features.HaveMapFlag(features.BPF_F_MMAPABLE), ebpf.ErrNotSupported)
	if l.plain {
		for _, m := range l.spec.Maps {
			m.Flags &^= unix.BPF_F_MMAPABLE
		}
	}
	if !globalFunctions() {
		return l.lowerLimits()
	}
	return nil
}

// exitBits returns a mask. An exit is reported if its wait status has a bit of the mask, or if the
// mask is 0.
func exitBits(shared *source.Options) uint32 {
	switch {
	case !shared.Reports(engine.EventExit):
		return 0x80 // the bit of a core dump
	case shared.Exits == source.ExitsNonzero:
		return ^uint32(0)
	}
	return 0
}

// registers has, by architecture, offsets in struct pt_regs: of a function's first two arguments
// and its return value, and of a system call's first argument. The registers are di, si, ax and di,
// or x0, x1, x0 and orig_x0.
var registers = map[string]struct{ argument, second, result, first uint32 }{"amd64": {112, 104, 80, 112}, "arm64": {0, 8, 0, 272}}

// set sets a constant for the programs that are loaded later.
func (l *loader) set(variable string, value any) error {
	v := l.spec.Variables[variable]
	if v == nil {
		return fmt.Errorf("the programs have no variable %s", variable)
	}
	return v.Set(value)
}

// load loads the named programs, and the maps that do not exist yet. If the kernel refuses a
// program with casts, this program and all later ones read by calls.
func (l *loader) load(names ...string) (map[string]*ebpf.Program, error) {
	programs, err := l.loadOnStack(names)
	if err == nil || l.cast == 0 {
		return programs, err
	}
	cast := l.cast
	l.cast = 0
	programs, byCalls := l.loadOnStack(names)
	if byCalls != nil { // casts are not the reason
		l.cast = cast
		return nil, err
	}
	return programs, nil
}

// loadOnStack loads programs, with their handlers on the task's stack if the kernel allows it.
func (l *loader) loadOnStack(names []string) (map[string]*ebpf.Program, error) {
	programs, err := l.tryLoad(true, names)
	if err != nil && slices.ContainsFunc(names, isHandler) {
		// Kernels that refuse tail calls here have no private stacks.
		programs, err = l.tryLoad(false, names)
	}
	return programs, err
}

// tryLoad loads programs in parallel. onTaskStack keeps their handlers on the task's stack.
func (l *loader) tryLoad(onTaskStack bool, names []string) (map[string]*ebpf.Program, error) {
	group := *l.spec
	group.Programs = nil
	c, err := ebpf.NewCollectionWithOptions(&group, ebpf.CollectionOptions{MapReplacements: l.maps})
	if err != nil {
		return nil, explain(err)
	}
	defer c.Close()
	names = slices.Compact(slices.Sorted(slices.Values(names))) // hooks share handlers
	programs, errs := make([]*ebpf.Program, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { programs[i], errs[i] = l.loadProgram(name, onTaskStack, c.Maps) })
	}
	all.Wait()
	byName := make(map[string]*ebpf.Program, len(names))
	for i, p := range programs {
		if err == nil && errs[i] != nil {
			err = explain(errs[i])
		}
		byName[names[i]] = p
	}
	if err != nil {
		for _, p := range programs {
			p.Close()
		}
		return nil, err
	}
	for name, m := range c.Maps {
		if l.maps[name] == nil && !m.IsPinned() && name != constants {
			l.maps[name] = m
			delete(c.Maps, name)
		}
	}
	return byName, nil
}

func (l *loader) loadProgram(name string, onTaskStack bool, maps map[string]*ebpf.Map) (*ebpf.Program, error) {
	one := *l.spec
	one.Programs = map[string]*ebpf.ProgramSpec{name: l.spec.Programs[name]}
	spec := one.Copy()
	p := spec.Programs[name]
	setReads(p, l.cast, l.bytes)
	if l.plain {
		l.inlineConstants(p)
	}
	if onTaskStack && isHandler(name) {
		keepOnTaskStack(p)
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		Programs:        ebpf.ProgramOptions{KernelTypes: l.types},
		MapReplacements: maps,
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.DetachProgram(name), nil
}

// isHandler reports whether a program is a handler, which twin programs tail-call.
func isHandler(name string) bool { return strings.HasSuffix(name, "_handler") }

// keepOnTaskStack makes a program begin with a tail call to an index without a program. The call
// has no effect, but programs with tail calls stay on the task's stack. From Linux 6.13 on, other
// programs of raw tracepoints use one stack for each CPU, and the kernel prevents only the attached
// program from running twice on a CPU. From 7.0 on, the attached program can be preempted. Its twin
// could then enter the same handler on the same CPU. Both would write to one stack, which crashes
// the kernel.
func keepOnTaskStack(p *ebpf.ProgramSpec) {
	old := p.Instructions
	head := asm.Instructions{
		asm.Mov.Reg(asm.R9, asm.R1), // the context; a call keeps R9
		asm.LoadMapPtr(asm.R2, 0).WithReference(programsMapHandlers),
		asm.Mov.Imm(asm.R3, int32(programsEventKindEVENT_KINDS)),
		asm.FnTailCall.Call(),
		asm.Mov.Reg(asm.R1, asm.R9),
	}
	// The first instruction carries the function's name and type.
	head[0].Metadata = old[0].Metadata
	rest := slices.Clone(old)
	rest[0].Metadata = asm.Metadata{}
	p.Instructions = append(head, rest...)
}

// constants is the name of the map of constants. Each group of programs has its own map.
const constants = ".rodata"

// explain adds the remedy to an error of bpf(2). Package ebpf explains every EPERM by the limit on
// locked memory. This is rarely the cause, so explain removes its text.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM) && unix.Geteuid() != 0:
		return fmt.Errorf("load programs: needs CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN): run as root: %w", unix.EPERM)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("load programs: refused for root: CAP_BPF and CAP_PERFMON are missing, a seccomp filter denies it, or (before Linux 5.11) the limit on locked memory is too low (ulimit -l): %w", unix.EPERM)
	case errors.Is(err, unix.ENOSYS): // leaves out the map or feature, as any may be the first
		return fmt.Errorf("load programs: the kernel has no bpf(2) (CONFIG_BPF_SYSCALL), or a seccomp filter hides it: %w", unix.ENOSYS)
	case errors.Is(err, unix.EINVAL) && !onTracepoints():
		return fmt.Errorf("load programs: %w: the kernel has no programs on tracepoints (CONFIG_BPF_EVENTS, which needs CONFIG_KPROBE_EVENTS or CONFIG_UPROBE_EVENTS): %w",
			errors.ErrUnsupported, unix.EINVAL)
	case errors.Is(err, unix.EMFILE): // leaves out the types that package ebpf adds
		return fmt.Errorf("load programs: the limit on open descriptors is too low (ulimit -n): %w", unix.EMFILE)
	case (errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL)) && missingNeeds() != "":
		return fmt.Errorf("load programs: %w: the kernel has no %s", errors.ErrUnsupported, missingNeeds())
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("load programs: %w: the kernel lacks a part of eBPF: %w", errors.ErrUnsupported, err)
	}
	return fmt.Errorf("load programs: %w", err)
}

// needs are the features that the programs require, with the first Linux that has each. If a kernel
// lacks several features, the error of a load names one or none of them.
var needs = []struct {
	name, since string
	probe       func() error
}{
	{"maps that are stacks", "4.20", func() error { return features.HaveMapType(ebpf.Stack) }},
	{"maps that programs only read", "5.2", func() error { return features.HaveMapFlag(features.BPF_F_RDONLY_PROG) }},
}

// missingNeeds returns the needs that the kernel lacks, or "".
func missingNeeds() string {
	var names []string
	for _, n := range needs {
		if errors.Is(n.probe(), ebpf.ErrNotSupported) {
			names = append(names, n.name+" (Linux "+n.since+")")
		}
	}
	return strings.Join(names, " and no ")
}

// onTracepoints reports whether the kernel supports programs on raw tracepoints. For an unsupported
// type the kernel returns the same error as for wrong arguments. The kernel must be able to load
// programs of other types.
func onTracepoints() bool {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err == nil {
		p.Close()
	}
	return !errors.Is(err, unix.EINVAL)
}
