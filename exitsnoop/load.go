package exitsnoop

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tracefs"
)

// The object is committed, so that building needs neither clang nor libbpf's headers.
//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type task -type exit_event -type event_state -type counter -type member -type tree_counter programs programs/exitsnoop.bpf.c -- -O2 -Wall -Werror -I../internal/bpf
// No code loads all objects into a struct, so that part of the output is removed.
//go:generate sed -i -e /"io"/d -e /^...loadProgramsObjects/,/^...Do.not.access/{/^...Do/!d} programs_bpfel.go

// linkNames are the names of the programs and of their links' pins, in the order of attaching and
// pinning.
var linkNames = []string{
	programsProgHandleSchedProcessExit, programsProgHandleSchedProcessExitTwin,
	programsProgHandleSchedProcessFork, programsProgHandleSchedWakeupNew,
}

// mapNames are the names of the maps, in the order of pinning.
var mapNames = []string{
	programsMapTracingTasks, programsMapExitedEvents, programsMapCounters,
	programsMapTreeMembers, programsMapTreeCounters,
}

// maps are open maps by name.
type maps map[string]*ebpf.Map

func (m maps) close() {
	for _, v := range m {
		v.Close()
	}
}

// links are attached programs by name.
type links map[string]link.Link

// any reports whether one of these programs is attached.
func (l links) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return l[name] != nil })
}

// missing returns the names of the programs that are not attached.
func (l links) missing() []string {
	return slices.DeleteFunc(slices.Clone(linkNames), func(name string) bool { return l[name] != nil })
}

func (l links) close() (err error) {
	for _, v := range l {
		err = errors.Join(err, v.Close())
	}
	return err
}

// mapSpecs returns the programs and maps with the sizes of the options.
func mapSpecs(o *Options) (*ebpf.CollectionSpec, error) {
	spec, err := loadPrograms()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	spec.Maps[programsMapTracingTasks].MaxEntries = cmp.Or(o.MaxTracing, defaultEntries)
	spec.Maps[programsMapExitedEvents].MaxEntries = cmp.Or(o.MaxEvents, defaultEntries)
	spec.Maps[programsMapTreeMembers].MaxEntries = cmp.Or(o.MaxEvents, defaultEntries)
	return spec, nil
}

// layout returns the programs and maps of the object. The result is shared and must not be changed.
// It is read once, because EnsureRunning needs it while it holds the lock.
var layout = sync.OnceValues(loadPrograms)

// checkLayout returns ErrShape if a map does not have the layout of its name in this version.
func checkLayout(name string, m *ebpf.Map) error {
	spec, err := layout()
	if err != nil {
		return err
	}
	want := spec.Maps[name].Copy()
	if want.Type == ebpf.Hash {
		want.MaxEntries = m.MaxEntries() // an option
	}
	if err := want.Compatible(m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrShape, name, err)
	}
	return nil
}

// attach loads and attaches the programs that are not in attached. They use the maps in have, and
// new maps for the rest. attach adds new maps to have and new links to attached. The caller closes
// both, even after an error.
func attach(o *Options, have maps, attached links) error {
	spec, err := mapSpecs(o)
	if err != nil {
		return err
	}
	for name := range attached {
		delete(spec.Programs, name)
	}
	if attached[programsProgHandleSchedProcessExitTwin] != nil || !kernelversion.AtLeast(kernelversion.PreemptibleTracepoints) {
		delete(spec.Programs, programsProgHandleSchedProcessExitPerf)
	}
	for name, m := range have {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	if events := have[programsMapExitedEvents]; events != nil && have[programsMapTreeMembers] == nil {
		spec.Maps[programsMapTreeMembers].MaxEntries = events.MaxEntries()
	}
	// Before 5.11 maps count against the limit on locked memory. Loading may work even if the
	// limit cannot be lifted.
	_ = rlimit.RemoveMemlock()
	opts := ebpf.CollectionOptions{MapReplacements: have}
	if opts.Programs.KernelTypes, err = kernelTypes(o); err != nil {
		return err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, opts)
	if err != nil {
		return cmp.Or(kernelversion.Hidden(), missingHelper(), kernelError("load the program", err))
	}
	defer c.Close() // except the maps that are moved to have
	for _, name := range attached.missing() {
		if err := o.step("attach " + name); err != nil {
			return err
		}
		if perf := c.Programs[programsProgHandleSchedProcessExitPerf]; perf != nil && name == programsProgHandleSchedProcessExitTwin {
			if attached[name], err = attachPerf("sched", spec.Programs[name].AttachTo, perf); err == nil {
				continue
			}
			delete(attached, name) // without tracefs or perf events
		}
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: spec.Programs[name].AttachTo, Program: c.Programs[name]})
		if err != nil {
			return kernelError("attach to raw tracepoint "+spec.Programs[name].AttachTo, err)
		}
		attached[name] = l
		if err := checkLinkInfo(l); err != nil {
			return err
		}
	}
	for name, m := range c.Maps {
		if have[name] == nil {
			have[name] = m
			delete(c.Maps, name)
		}
	}
	return nil
}

// missingHelper returns an ErrUnsupported if the kernel lacks the newest feature that the program
// needs. attach calls it only after a failure.
func missingHelper() error {
	if errors.Is(features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnGetNsCurrentPidTgid), ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: bpf_get_ns_current_pid_tgid is missing (Linux 5.7)", ErrUnsupported)
	}
	return nil
}

// checkLinkInfo returns an ErrUnsupported if the kernel does not report the program of a link.
// Without this, exitsnoop cannot recognise its own pins.
func checkLinkInfo(l interface{ Info() (*link.Info, error) }) error {
	if _, err := l.Info(); errors.Is(err, unix.EINVAL) || errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: the kernel does not report the program of a link (Linux 5.8)", ErrUnsupported)
	}
	return nil
}

// attachPerf attaches a program to a perf event of a tracepoint on all CPUs.
func attachPerf(group, tracepoint string, program *ebpf.Program) (link.Link, error) {
	fs, err := tracefs.Open()
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	event, err := fs.Event(group, tracepoint)
	if err != nil {
		return nil, err
	}
	fd, err := event.Open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) // the link holds the event
	return link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: program, Attach: ebpf.AttachPerfEvent})
}

// attachedTo returns the tracepoint of a link, "" if it is attached to something else.
func attachedTo(info *link.Info) string {
	if raw := info.RawTracepoint(); raw != nil {
		return raw.Name
	}
	if perf := info.PerfEvent(); perf != nil && perf.Tracepoint() != nil {
		return perf.Tracepoint().Tracepoint
	}
	return ""
}

// kernelError adds the failed step, and ErrPermission or ErrUnsupported.
func kernelError(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM): // package ebpf would blame the limit on locked memory
		return fmt.Errorf("%s: %w", what, ErrPermission)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w: %w", what, ErrPermission, err)
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%s: %w: %w", what, ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// kernelTypes returns the BTF for relocating the programs.
func kernelTypes(o *Options) (*btf.Spec, error) {
	if o.types != nil {
		return o.types, nil
	}
	k, err := btfhub.Open(o.BTF)
	switch {
	case err != nil:
		return nil, cmp.Or(kernelversion.Hidden(), fmt.Errorf("%w: %w", ErrUnsupported, err))
	case !k.Exact:
		return nil, fmt.Errorf("%w: only another kernel's types are available (%s): name a BTF file with %s", ErrUnsupported, k.Origin, btfhub.PathVariable)
	}
	return k.Spec, nil
}
