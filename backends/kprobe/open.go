package kprobe

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/internal/pulse"
	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
)

// Options are the options that only this source has.
type Options = source.KProbeOptions

// Validate returns a *engine.OptionError if a value cannot be used.
func Validate(o Options) error { return source.CheckRingSize(o.RingSize) }

const defaultRing = 512 << 10

// sourceCount counts the sources that this process has opened.
var sourceCount atomic.Uint32

// Open installs the probes. It needs root: tracefs requires it, or CAP_SYS_ADMIN where tracefs is
// not mounted, and perf events require CAP_PERFMON.
func Open(shared source.Options, o Options) (*Source, error) {
	if firstArgument.missing() {
		return nil, fmt.Errorf("no kprobes on %s: the registers of arguments are unknown (%w)", runtime.GOARCH, errors.ErrUnsupported)
	}
	if !proctext.InInitialNamespace("pid") {
		return nil, fmt.Errorf("this pid namespace has other pids than the kernel reports (%w): run in the host's pid namespace", errors.ErrUnsupported)
	}
	if err := pulse.Silenced(); err != nil {
		return nil, err
	}
	ringSize, err := source.RingSize(o.RingSize, defaultRing)
	if err != nil {
		return nil, err
	}
	types, err := shared.Types()
	if err != nil {
		return nil, err
	}
	return selftest.Open(shared, types, func(shared source.Options) (*Source, error) {
		return openWith(shared, ringSize, types)
	})
}

func openWith(shared source.Options, ringSize int, types *btfhub.Kernel) (*Source, error) {
	fs, err := tracefs.Open()
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	probes, err := fs.Probes()
	if err != nil {
		return nil, err
	}
	s := &Source{
		probes: probes, shared: shared, ringSize: ringSize,
		endings: endings{byPID: make(map[uint32]ending)}, execs: execs{calls: make(map[uint32]*execCall)}, completer: newCompleter(),
	}
	if err := s.open(fs, btfhub.Resolve(types.Spec)); err != nil {
		s.Close()
		return nil, err
	}
	s.capabilities.Types = types.Origin
	return s, nil
}

func (s *Source) open(fs *tracefs.FS, offsets *btfhub.Offsets) error {
	me, err := owner.Self()
	if err != nil {
		return err
	}
	toMount, _ := offsets.Bytes("mount.mnt")
	children, _ := offsets.Bytes("task_struct.children")
	s.children = uint64(children)
	s.walker.toMount = uint64(toMount)

	in := installer{
		kernel: kernel{offsets: offsets, threads: s.shared.Threads, cgroups: proctext.OwnHierarchy(), warns: selftest.ReadsWarn()},
		fs:     fs, probes: s.probes, group: me.Name(sourceCount.Add(1)), reports: s.shared.Reports, places: findPlaces(),
	}
	in.findForms()
	failed := make([]error, numFamilies)
	for n := range families {
		if !s.needsFamily(n) {
			continue
		}
		set, err := in.family(n)
		s.installed = in.installed
		if err != nil {
			failed[n] = err
			if n == familyFork || n == familyExec || n == familyExit {
				return fmt.Errorf("%s: %w", families[n].kind, err)
			}
			continue
		}
		set.silent = !s.shared.Reports(set.kind.Events()) && n != familyExit
		s.sets = append(s.sets, set)
		for _, p := range set.probes {
			if id := int(p.layout.id); id >= len(s.byID) {
				s.byID = append(s.byID, make([]*probe, id+1-len(s.byID))...)
			}
			s.byID[p.layout.id] = p
		}
	}
	s.dropIncomplete(failed)
	s.beat = in.beat()
	s.installed = in.installed
	if err := s.openCPUs(); err != nil {
		return err
	}
	if s.pulse, err = pulse.Open(s.shared.HoldTime, s.hits); errors.Is(err, pulse.ErrSilent) {
		return err
	} else if err != nil {
		in.notes = append(in.notes, "quark would not notice if something disabled the probes: "+source.OneLine(err))
	}
	s.describe(&in, failed)
	if kernelversion.Realtime() && !kernelversion.AtLeast("6.12") {
		// If the kernel is preempted while it wakes a reader, it drops the events of that
		// CPU. Since Linux 6.12 its protection against recursion is per task, and this does
		// not happen.
		s.blind = true
		s.capabilities.Notes = append(s.capabilities.Notes, "with PREEMPT_RT before Linux 6.12 the kernel may lose events that it does not count")
	}
	return s.shared.LeaveOut(&s.capabilities)
}

// needsFamily reports whether to install the probes of a family. Some are needed for other kinds:
// an exec can replace an exited leader, and an exit reports a core dump.
func (s *Source) needsFamily(family int) bool {
	return s.shared.Reports(families[family].kind.Events()) || (family == familyExec || family == familyExit) && s.shared.ReportsEnds()
}

// dropIncomplete removes sets that are useless without another set that could not be installed.
func (s *Source) dropIncomplete(failed []error) {
	var missing error
	for _, n := range []int{familyExecBegins, familyExecAtBegins, familyExecNoReturn, familyExecEnds, familyExecAtEnds} {
		missing = cmp.Or(missing, failed[n])
	}
	if missing != nil {
		failed[familyExecEnds], failed[familyExecAtEnds] = missing, missing
		s.sets = slices.DeleteFunc(s.sets, func(set *set) bool { return set.kind == engine.KindExecFailed })
	}
}

func (s *Source) openCPUs() (err error) {
	s.followed = clock.Monotonic()
	if s.online, err = perf.OpenOnline(); err != nil {
		return err
	}
	for _, n := range s.online.CPUs() {
		if err := s.addCPU(n); err != nil && !errors.Is(err, perf.ErrNoCPU) {
			return err
		}
	}
	if len(s.cpus) == 0 {
		return errors.New("no CPU could be opened")
	}
	s.opened = clock.Monotonic()
	return nil
}

// addCPU opens and enables the events of a CPU.
func (s *Source) addCPU(n int) error {
	c, err := openCPU(n, s.sets, s.beat, s.ringSize)
	if err != nil {
		return err
	}
	if err = s.online.Watch(c.Ring.FD()); err == nil {
		err = c.enable()
	}
	if err != nil {
		c.close()
		return err
	}
	c.tally.Last = clock.Monotonic()
	s.cpus = append(s.cpus, c)
	return nil
}
