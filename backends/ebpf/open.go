package ebpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Open loads the programs into the kernel and attaches them. It needs CAP_BPF and CAP_PERFMON, and
// CAP_SYS_ADMIN for a part of ID_CHANGE on kernels without kprobes. [Source.Capabilities] shows
// what could not be attached.
func Open(shared source.Options, o Options) (*Source, error) {
	kernel, err := shared.Types()
	if err != nil {
		return nil, err
	}
	types := kernel.Spec
	s, err := openWith(&o, shared.Threads, types)
	if !kernel.Exact {
		if err == nil {
			if err = s.selfTest(); err != nil {
				s.Close()
			}
		}
		if err != nil {
			err = fmt.Errorf("self-test of types from %s: %w", kernel.Origin, err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.capabilities.Types = kernel.Origin
	return s, nil
}

func openWith(o *Options, threads bool, types *btf.Spec) (*Source, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	cgroup := cgroupSource()
	l, err := newLoader(o, threads, types, cpus, cgroup)
	if err != nil {
		return nil, err
	}
	s := &Source{maps: l.maps}
	s.gaps.begin([engine.NumLosses]uint64{})
	if err := s.open(l, cpus); err != nil {
		s.Close()
		return nil, err
	}
	s.capabilities.Kinds[engine.KindGap] = kernelVia("the programs' counters of what they lost")
	s.describeFields(types, cgroup)
	return s, nil
}

func (s *Source) open(l *loader, cpus int) error {
	var names []string
	for _, r := range required {
		names = append(names, r.names()...)
	}
	event := eventOfExits()
	if event != 0 {
		names[slices.Index(names, exitHook.twin)] = programsProgQuarkExitPerf
	}
	programs, err := s.load(l, names...)
	if err != nil {
		return err
	}
	if err := s.share(l, cpus); err != nil {
		return err
	}
	for _, r := range required {
		if err := s.attachTwins(r, programs); err != nil {
			return err
		}
	}
	if event != 0 {
		if err := s.attachToEvent(l, event, programs[programsProgQuarkExitPerf]); err != nil {
			return err
		}
	}
	s.openRename(l)
	s.openIDChange(l)
	return nil
}

// load loads programs and adds them to those that Close closes.
func (s *Source) load(l *loader, names ...string) (map[string]*ebpf.Program, error) {
	programs, err := l.load(names...)
	for _, p := range programs {
		s.programs = append(s.programs, p)
	}
	return programs, err
}

// share maps the memory that is shared with the programs, and fills the pool of slots.
func (s *Source) share(l *loader, cpus int) (err error) {
	if s.ring, err = mapRing(s.maps[programsMapRing].FD(), s.maps[programsMapRing].MaxEntries()); err != nil {
		return err
	}
	armed, nudged := l.spec.Variables[programsVarArmed], l.spec.Variables[programsVarNudged]
	variables := s.maps[armed.SectionName]
	if variables == nil {
		return fmt.Errorf("the programs have no section %s", armed.SectionName)
	}
	if s.control, err = mapControl(variables.FD(), armed.Offset, nudged.Offset); err != nil {
		return err
	}
	if s.counters, err = mapCounters(s.maps[programsMapCounters].FD(), cpus); err != nil {
		return err
	}
	free := s.maps[programsMapFreeSlots]
	for i := range free.MaxEntries() {
		if err := free.Update(nil, i, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("fill pool of slots: %w", err)
		}
	}
	return nil
}
