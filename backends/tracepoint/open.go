package tracepoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
)

// Options are those of this source alone.
type Options = source.TracepointOptions

// Validate returns a *engine.OptionError if a value can't be used.
func Validate(o Options) error { return source.CheckRingSize(o.RingSize) }

const defaultRing = 1 << 20

const (
	defaultHold = 50 * time.Millisecond
	// leastHold is enough for a tick of start times, see certain.
	leastHold = engine.ProcStartUnit + 2*inFlight
)

// Open opens the tracepoints. It needs root: tracefs requires it, or CAP_SYS_ADMIN where tracefs is
// not mounted, and perf events require CAP_PERFMON.
func Open(shared source.Options, o Options) (*Source, error) {
	if !proctext.InInitialNamespace("pid") {
		return nil, fmt.Errorf("the kernel's pids are not those of this pid namespace (%w): run it in the host's", errors.ErrUnsupported)
	}
	ringSize, err := source.RingSize(o.RingSize, defaultRing)
	if err != nil {
		return nil, err
	}
	if err := shared.CheckTypes(); err != nil {
		return nil, err
	}
	s := newSource(shared, ringSize)
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newSource returns a source without perf events.
func newSource(shared source.Options, ringSize int) *Source {
	s := &Source{
		shared: shared, exits: shared, ringSize: ringSize, namesSize: defaultNames, hold: uint64(defaultHold), clock: procfs.NewBootClock(),
		showStatus: kernelversion.AtLeast("6.1"),
	}
	if shared.HoldTime > 0 { // an event is to come in time to be put in order
		s.hold = max(leastHold, min(s.hold, uint64(shared.HoldTime)/4))
	}
	if s.exits.Kinds == 0 {
		s.exits.Kinds = source.DefaultKinds
	}
	s.exits.Kinds &^= engine.EventCoreDump // of few is known that there was one
	return s
}

func (s *Source) open() (err error) {
	fs, err := tracefs.Open()
	if err != nil {
		return err
	}
	defer fs.Close()
	if s.proc, err = procfs.OpenFor(&s.shared.Environ); err != nil {
		return err
	}
	s.proc.Sparing = true
	failed, err := s.findLayouts(fs)
	if err != nil {
		return err
	}
	if err := s.openCPUs(); err != nil {
		return err
	}
	if s.groups != nil {
		s.learn()
	}
	s.describe(failed)
	return s.shared.LeaveOut(&s.caps)
}

// findLayouts finds the tracepoints that are needed. failed is why those of failed execs are not
// there.
func (s *Source) findLayouts(fs *tracefs.FS) (failed, err error) {
	o := &s.shared
	found := &s.byWhat
	find := func(list ...what) error {
		for _, w := range list {
			l, err := findLayout(fs, w)
			if err != nil {
				return err
			}
			found[w] = l
		}
		return nil
	}
	if o.Reports(engine.EventExit) {
		if err := find(ended); err != nil {
			return nil, err
		}
		if s.dead = found[ended].dead.size > 0; !s.dead {
			s.groups = new(groups)
			if err := find(newTask, executed); err != nil {
				return nil, err
			}
		}
	}
	if o.Reports(engine.EventExec) {
		err = find(newTask, executed)
	} else if o.Reports(engine.EventFork) {
		err = find(newTask)
	}
	if err != nil {
		return nil, err
	}
	if o.Reports(engine.EventExecFailed) {
		if failed = find(execEnds, execAtEnds); failed != nil {
			found[execEnds], found[execAtEnds] = nil, nil
		}
	}
	for w, kind := range map[what]engine.Events{newTask: engine.EventFork, executed: engine.EventExec,
		ended: engine.EventExit, execEnds: engine.EventExecFailed, execAtEnds: engine.EventExecFailed} {
		if found[w] != nil {
			found[w].reported = o.Reports(kind)
		}
	}
	if !o.Threads && s.groups == nil { // their records would count as lost
		if l := found[newTask]; l != nil {
			l.filter = fmt.Sprintf("!(clone_flags & %d)", cloneThread)
		}
		if l := found[ended]; l != nil {
			l.filter = "group_dead == 1"
		}
	}
	s.births = found[newTask] != nil
	s.names = o.Reports(engine.EventSetProcTitle | engine.EventExec | engine.EventExecFailed)
	if o.Reports(engine.EventSetProcTitle) {
		event, err := fs.Event("task", "task_rename")
		if err != nil {
			return nil, fmt.Errorf("find tracepoint task/task_rename: %w", err)
		}
		s.renames = event.ID
	}
	for _, l := range found {
		if l == nil {
			continue
		}
		s.layouts = append(s.layouts, l)
		for int(l.id) >= len(s.byID) {
			s.byID = append(s.byID, nil)
		}
		s.byID[l.id] = l
	}
	return failed, nil
}

func (s *Source) openCPUs() (err error) {
	s.followed = clock.Monotonic()
	s.noted = s.followed
	if s.online, err = perf.OpenOnline(); err != nil {
		return err
	}
	if s.pace, err = pace.New(pace.Reading); err != nil {
		return err
	}
	if fd := s.online.FD(); fd >= 0 {
		if err := s.pace.Add(fd); err != nil {
			return err
		}
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
	c, err := s.openCPU(n)
	if err != nil {
		return err
	}
	rings := c.rings()
	for _, r := range rings {
		r.tally.Last = clock.Monotonic()
		if err == nil {
			err = s.pace.Add(r.mapped.FD())
		}
	}
	if err == nil {
		err = c.leader.Enable()
	}
	if err != nil {
		for _, r := range rings {
			s.pace.Remove(r.mapped.FD())
		}
		c.close()
		return fmt.Errorf("enable tracepoints on CPU %d: %w", n, err)
	}
	s.cpus = append(s.cpus, c)
	s.rings = append(s.rings, rings...)
	return nil
}
