package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Open loads the programs into the kernel and attaches them. It needs CAP_BPF and CAP_PERFMON. For
// ID_CHANGE and PTRACE it also needs CAP_SYS_ADMIN if kprobes require that or are missing.
// [Source.Capabilities] shows what could not be attached.
func Open(shared source.Options, o Options) (*Source, error) {
	kernel, err := shared.Types()
	if err != nil {
		return nil, err
	}
	return selftest.Open(shared, kernel, func(shared source.Options) (*Source, error) {
		return openWith(&o, &shared, kernel)
	})
}

// skipsCounted is the first Linux that counts the skipped programs of perf events and kprobes. On a
// CPU, the kernel skips them while a task that uses a map through bpf(2) is preempted.
const skipsCounted = "6.7"

func openWith(o *Options, shared *source.Options, kernel *btfhub.Kernel) (*Source, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	cgroup := cgroupSource()
	l, err := newLoader(o, shared, kernel, cpus, cgroup)
	if err != nil {
		return nil, err
	}
	reparent := reparents(kernel.Spec)
	if err := l.set(programsVarWantReparent, shared.Reports(engine.EventReparent) && reparent.Origin != engine.OriginNone); err != nil {
		return nil, err
	}
	environ, err := shared.Environ.Compile()
	if err != nil {
		return nil, err
	}
	s := &Source{maps: l.maps, shared: *shared, environ: environ}
	s.gaps.begin()
	if err := s.open(l, shared); err != nil {
		s.Close()
		return nil, err
	}
	if len(s.alone) > 0 && !kernelversion.AtLeast(skipsCounted) {
		s.capabilities.Notes = append(s.capabilities.Notes,
			"some EXEC_FAILED, ID_CHANGE and PTRACE may be lost uncounted: before Linux "+skipsCounted+" the kernel does not count the programs that it skips while a task in bpf(2) is preempted")
	}
	s.capabilities.Kinds[engine.KindGap] = kernelVia("the programs' counters of lost events")
	s.capabilities.Kinds[engine.KindCoreDump] = source.CoreDumps
	s.capabilities.Kinds[engine.KindReparent] = reparent
	s.capabilities.Types = kernel.Origin
	s.describeFields(kernel.Spec, cgroup, l.low)
	if err := shared.LeaveOut(&s.capabilities); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open attaches the programs of the wanted kinds. The programs of forks come last: if a FORK is
// reported, the later events of its process are reported, too.
func (s *Source) open(l *loader, shared *source.Options) error {
	var hooks []hook
	var names []string
	for _, h := range requiredHooks {
		switch {
		case shared.Reports(h.kind.Events()) || h.kind == engine.KindExit && shared.ReportsEnds():
			hooks, names = append(hooks, h), append(names, h.names()...)
		case h.kind == engine.KindExec && shared.ReportsEnds():
			names = append(names, programsProgQuarkExecLeader)
		}
	}
	programs, err := s.load(l, names...)
	if err != nil {
		return err
	}
	if err := s.share(l); err != nil {
		return err
	}
	if leader := programs[programsProgQuarkExecLeader]; leader != nil {
		if err := s.attachRaw(execTracepoint, leader); err != nil {
			return err
		}
	}
	defer s.loadSnapshot(l).Wait()
	attach := func(kinds engine.Events) error {
		for _, h := range hooks {
			if kinds.Has(h.kind.Events()) {
				if err := s.attachHook(l, h, programs); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := attach(engine.EventExec | engine.EventExit); err != nil {
		return err
	}
	if shared.Reports(engine.EventIDChange | engine.EventPtrace | engine.EventNSChange) {
		s.noKprobes = s.checkKprobes(l)
	}
	for _, optional := range []struct {
		kinds  engine.Events
		attach func(*loader)
	}{
		{engine.EventSetProcTitle, s.openRename}, {engine.EventIDChange | engine.EventNSChange, s.openChanges},
		{engine.EventCgroupChange, s.openCgroupChange}, {engine.EventPtrace, s.openPtrace}, {engine.EventExecFailed, s.openFailedExecs},
	} {
		if shared.Reports(optional.kinds) {
			optional.attach(l)
		}
	}
	if shared.Threads && shared.Reports(engine.EventFork) {
		if err := s.attachWorkers(l); err != nil {
			return err
		}
	}
	return attach(engine.EventFork)
}

// load loads programs. Close closes them.
func (s *Source) load(l *loader, names ...string) (map[string]*ebpf.Program, error) {
	programs, err := l.load(names...)
	for _, p := range programs {
		s.programs = append(s.programs, p)
	}
	return programs, err
}

// openBuffer opens the buffer through which this process receives records.
func (s *Source) openBuffer(l *loader) (buffer, error) {
	m := s.maps[programsMapRing]
	if l.perf == "" {
		r, err := mapRing(m.FD(), m.MaxEntries())
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	b, err := openPerf(m, s.maps[mapWaking], l.options, s.note)
	if err != nil {
		return nil, err
	}
	s.gaps.ofCPU = make([]cpuLosses, m.MaxEntries())
	s.note(fmt.Sprintf("the records come through perf buffers, %d KiB for each CPU: %s", b.size>>10, l.perf))
	return b, nil
}

// note adds a note for the user to the capability table, unless the table has it.
func (s *Source) note(text string) {
	if notes := &s.capabilities.Notes; !slices.Contains(*notes, text) {
		*notes = append(*notes, text)
	}
}

// share maps the memory that is shared with the programs, and fills the pool of slots.
func (s *Source) share(l *loader) (err error) {
	if s.buffer, err = s.openBuffer(l); err != nil {
		return err
	}
	armed, nudged, images := l.spec.Variables[programsVarArmed], l.spec.Variables[programsVarNudged], l.spec.Variables[programsVarImagesOnly]
	variables := s.maps[armed.SectionName]
	if variables == nil {
		return fmt.Errorf("the programs have no section %s", armed.SectionName)
	}
	if s.control, err = openControl(variables, l.plain, armed.Offset, nudged.Offset, images.Offset); err != nil {
		return err
	}
	if s.counters, err = openCounters(s.maps[programsMapCounters], l.plain); err != nil {
		return err
	}
	free := s.maps[programsMapFreeSlots]
	for i := range free.MaxEntries() { // the snapshot uses the slot that is left
		if err := free.Update(nil, i, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("fill pool of slots: %w", err)
		}
	}
	return nil
}
