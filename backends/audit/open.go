package audit

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/proctext"
)

const (
	defaultHold = 50_000_000
	// leastHold is enough for a tick of start times, see certain.
	leastHold = engine.ProcStartUnit + 2*inFlight
	// wallError is by how much the wall clock may be off that stamps are converted with, in ns.
	wallError = 500_000
)

// Open adds the rules and listens to records. Audit has to be enabled, or Options.Enable set.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := setDefaults(&o); err != nil {
		return nil, err
	}
	if err := shared.CheckTypes(); err != nil {
		return nil, err
	}
	if shared.Threads {
		return nil, fmt.Errorf("report threads: the records of audit do not tell them: %w", errors.ErrUnsupported)
	}
	s := newSource(shared, o)
	if err := s.openAll(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSource returns a source without a socket.
func newSource(shared source.Options, o Options) *Source {
	s := &Source{
		shared: shared, exits: shared, opts: o, fd: -1, now: clock.Monotonic, hold: defaultHold, slack: 2*clock.Tick() + 1_000_000 + wallError,
		batch: nlsocket.NewBatch(batchSize, maxMessage), clock: procfs.NewBootClock(), lives: make(lives), told: make(map[uint32]uint64), births: make(map[uint32]bool), abends: make(map[uint32]uint64),
		lookEvery: 5_000_000_000, serials: serials{missed: make(map[uint32]hole)}, showStatus: kernelversion.AtLeast("6.1"),
	}
	s.wall, _ = clock.WallOffset()
	if shared.HoldTime > 0 { // an event is to come in time to be put in order
		s.hold = max(leastHold, min(s.hold, uint64(shared.HoldTime)/4))
	}
	if s.exits.Kinds == 0 {
		s.exits.Kinds = source.DefaultKinds
	}
	s.exits.Kinds &^= engine.EventCoreDump // of few is known that there was one
	s.idle = s.now()
	s.noted = s.idle
	return s
}

func (s *Source) openAll() (err error) {
	for _, kind := range []string{"user", "pid"} {
		if !proctext.InInitialNamespace(kind) {
			return fmt.Errorf("audit is for the initial %s namespace, and this process is in another (%w): run it in the host's", kind, errors.ErrUnsupported)
		}
	}
	if err := nlsocket.CheckNetwork(); err != nil {
		return err
	}
	st, err := s.connect()
	if err != nil {
		return err
	}
	if s.proc, err = procfs.OpenFor(&s.shared.Environ); err != nil {
		return err
	}
	s.proc.Sparing = true
	notes, err := s.rules.sweep()
	if err != nil {
		return err
	}
	if err := s.rules.name(); err != nil {
		return err
	}
	hidden, _, err := s.rules.lookAtOthers()
	if err != nil {
		return err
	}
	notes = append(notes, hidden...)
	s.opened = s.now()
	if err := s.rules.add(wanted(&s.shared, s.rules.key)); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	// From now on who disables audit is seen to do it. One that has ended meanwhile may have.
	if st, err = s.rules.control.Status(); err != nil {
		return err
	}
	if err := s.checkEnabled(&st); err != nil {
		return err
	}
	if st.Enabled == auditrule.Off {
		if err := s.rules.enable(); err != nil {
			return err
		}
	}
	if s.backlog.control, err = auditrule.Open(); err != nil {
		return err
	}
	booted := commandLine()
	s.backlog.exact = booted != "1" && booted != "on"
	s.backlog.bound = !s.backlog.exact || len(s.rules.hiding) > 0
	if s.looked = s.now(); len(s.rules.hiding) > 0 {
		s.hiddenFrom = s.looked
	}
	// Of after the socket has begun to get records.
	if st, err = s.rules.control.Status(); err != nil {
		return err
	}
	s.backlog.first, s.backlog.since = st.Lost, s.now()
	if s.shared.Reports(engine.EventIDChange) {
		if err := s.readLives(); err != nil {
			return err
		}
	}
	s.describe(!s.backlog.exact, notes)
	if err := s.shared.LeaveOut(&s.caps); err != nil {
		return err
	}
	return s.noteOlder()
}

// readLives reads the ids of the processes that are there, by which it is known what later calls
// change.
func (s *Source) readLives() error {
	pids, err := s.proc.PIDs()
	for _, pid := range pids {
		ev := &s.scratch
		ev.Reset()
		if _, err := s.proc.Read(pid, engine.FieldsIDs|1<<engine.FieldStart, ev); err == nil {
			s.lives.read(pid, &ev.Task, s.now())
		}
	}
	return err
}

// noteOlder notes the processes that are there when records come already: a birth of before that is
// of one of them. It may have a record too.
func (s *Source) noteOlder() error {
	pids, err := s.proc.PIDs()
	s.older = make(map[uint32]uint64, len(pids))
	for _, pid := range pids {
		if _, start, err := s.proc.Status(pid); err == nil {
			s.older[pid] = start
		}
	}
	s.listed = s.now()
	return err
}

// Snapshot calls f with the processes that noteOlder has found, as of before all events. Whether
// something was before or after a reading of /proc is not certain, as its time can be behind: of
// these processes all is told since the opening but their births, and of younger ones all.
func (s *Source) Snapshot(proc *procfs.Reader, f func(*engine.RawEvent) error) error {
	shown := make(map[uint32]uint64, len(s.older))
	err := proc.Scan(func(ev *engine.RawEvent) error {
		if start, ok := s.older[ev.PID]; !ok || start != ev.Task.Start {
			return nil
		}
		shown[ev.PID] = ev.Task.Start
		ev.Time, ev.Read = s.opened-1, ev.Time
		ev.Task.Carried = ev.Task.Known &^ constant
		return f(ev)
	})
	s.older = shown
	return err
}

// isOlder reports whether a birth is that of a process of the snapshot.
func (s *Source) isOlder(e *event) bool {
	start, ok := s.older[e.child()]
	if t := &e.ev.Task; ok && t.Known.Has(engine.FieldStart) {
		return t.Start == start
	}
	return ok && e.stamp <= s.listed+wallError
}

// connect opens the control of audit, and returns its status if it can be used.
func (s *Source) connect() (st auditrule.Status, err error) {
	c, err := auditrule.Open()
	v := commandLine()
	switch off := v == "0" || v == "off"; {
	case errors.Is(err, unix.EPROTONOSUPPORT) && off:
		return st, fmt.Errorf("%w: the kernel was booted with audit=%s: boot it without, or with audit=1", err, v)
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return st, fmt.Errorf("%w: this kernel has no CONFIG_AUDIT", err)
	case err != nil:
		return st, err
	}
	s.rules.control = c
	st, err = c.Status()
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return st, fmt.Errorf("%w: audit is for the initial user namespace: run it in the host's", err)
	case errors.Is(err, unix.EPERM):
		return st, fmt.Errorf("%w: it needs CAP_AUDIT_CONTROL in the initial pid namespace", err)
	case err != nil:
		return st, err
	}
	return st, s.checkEnabled(&st)
}

// checkEnabled reports whether audit can be used as it is, or may be enabled.
func (s *Source) checkEnabled(st *auditrule.Status) error {
	switch {
	case st.Enabled == auditrule.Off && !s.opts.Enable:
		return fmt.Errorf("audit is not enabled: boot with audit=1, or run auditctl -e 1, or let quark enable it "+
			"(Options.Audit.Enable, quark-mon --audit-enable), which slows down system calls until the next boot: %w", errors.ErrUnsupported)
	case st.Enabled >= auditrule.Locked:
		return fmt.Errorf("the rules of audit are locked until the next boot, as auditctl -e 2 does, so that none can be added: "+
			"reboot, and remove -e 2 from the rules in /etc/audit: %w", errors.ErrUnsupported)
	}
	return nil
}

// listen joins the group of those who read records.
func (s *Source) listen() error {
	const readLog = 1 // AUDIT_NLGRP_READLOG, as a bit of the groups
	conn, err := netlink.Dial(unix.NETLINK_AUDIT, &netlink.Config{Groups: readLog})
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("listen to records of audit: %w: it needs CAP_AUDIT_READ", err)
	case err != nil:
		return fmt.Errorf("listen to records of audit: %w", err)
	}
	defer conn.Close()
	if s.fd, err = nlsocket.Duplicate(conn); err != nil {
		return err
	}
	if err := nlsocket.SetReceiveBuffer(s.fd, s.opts.ReceiveBuffer); err != nil {
		return err
	}
	s.pace, err = pace.New(pace.Reading, s.fd)
	return err
}
