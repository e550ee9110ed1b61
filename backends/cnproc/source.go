package cnproc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Source is the proc connector as an [engine.Source]. It needs no privilege
// after Open, except that before Linux 6.6 the kernel heeds the farewell of Close
// only with CAP_NET_ADMIN, and else goes on making messages nobody gets.
type Source struct {
	threads   bool
	opts      Options
	fd        int
	pace      *pacer
	busy      bool // there were messages since Arm
	filtered  bool // the kernel leaves out kinds
	finishing bool // see Finish
	batch     *batch
	proc      *procfs.Reader
	caps      engine.CapabilityTable

	seq    sequence
	groups groups
	living living
	enrich enricher

	handed   uint64
	decode   uint64
	foreign  uint64 // messages of user space
	acks     uint64 // answers to other listeners: numbered like events, since Linux 4.10
	received uint64 // messages of the kernel that count as events
	overruns uint64 // times the kernel reported an overrun

	dropsBase   uint32
	dropsKnown  bool
	overrunTime uint64
	overrunOpen bool // the size of the last overrun is not known

	rescan     bool // threads may have come and gone unseen
	rescanGaps uint64
	rescanTime uint64
	dropped    uint64
}

var _ engine.Source = (*Source)(nil)

// Open subscribes to the proc connector.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := &Source{opts: o, threads: shared.Threads, batch: newBatch(), groups: newGroups(statusOfLast())}
	fd, err := dial(&o)
	if err != nil {
		return nil, err
	}
	s.fd = fd
	if s.filtered, err = listen(fd, s.batch, &o); err != nil {
		s.Close()
		return nil, err
	}
	if o.ReceiveBuffer < defaultReceiveBuffer {
		if err := setReceiveBuffer(fd, o.ReceiveBuffer); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.dropsBase, s.dropsKnown = drops(fd)
	s.enrich = enricher{byPID: map[uint32]int32{}, clock: newClock()}
	if s.proc, err = procfs.Open(); err != nil {
		if o.Enrich == EnrichFull {
			s.Close()
			return nil, err
		}
		s.proc = nil
	}
	s.enrich.proc = s.proc
	if s.pace, err = newPacer(fd, o.Enrich); err != nil {
		s.Close()
		return nil, err
	}
	s.learnThreads()
	s.caps = s.capabilities()
	return s, nil
}

// statusOfLast reports whether this kernel makes the status of the last thread
// that of the group: Linux 6.0 and later. A kernel that has this from its
// distributor and an older number is taken for one without, which costs
// knowledge and not truth.
func statusOfLast() bool {
	release, err := kernelversion.Running()
	if err != nil {
		return false
	}
	old, err := kernelversion.Older(release, "6.0")
	return err == nil && !old
}

// Name is "cnproc".
func (s *Source) Name() string { return "cnproc" }

// FD polls readable while the socket has messages, or some time after the first
// of them: see Arm.
func (s *Source) FD() int { return s.pace.epoll }

// Arm prepares FD. The socket stays readable as long as it holds something, so
// only messages that have been taken out of it are in the way of waiting. While the
// engine is not idle messages wake at intervals only, if there are many.
func (s *Source) Arm(idle bool) bool {
	if s.batch.next < s.batch.n {
		return false
	}
	s.pace.arm(s.busy && !idle, s.enrich.waiting(), s.enrich.clock.now())
	s.busy = false
	return true
}

// Close ends the subscription.
func (s *Source) Close() error {
	if s.fd < 0 {
		return nil
	}
	// Before Linux 6.6 the kernel counts listeners by these requests alone.
	farewell := send(s.fd, appendRequest(nil, 0, opIgnore, false, 0))
	err := unix.Close(s.fd)
	s.fd = -1
	if s.pace != nil {
		s.pace.close()
	}
	if s.proc != nil {
		s.proc.Close()
	}
	if err == nil && farewell != nil {
		err = fmt.Errorf("end the subscription to the proc connector: %w", farewell)
	}
	return err
}

// Populate moves what the socket holds into b. Under load it keeps forks of the
// last moment back, to be read once instead of twice if an exec follows.
func (s *Source) Populate(to engine.Sink) error {
	b, ok := to.(buffer)
	if !ok {
		b = forgetful{to}
	}
	return s.populate(b)
}

// forgetful is a buffer whose events can't be revised.
type forgetful struct{ engine.Sink }

func (forgetful) Len() int                                         { return 0 }
func (forgetful) Last(uint32, engine.Events, int) *engine.RawEvent { return nil }

// buffer is what an [engine.Buffer] is to a source.
type buffer interface {
	engine.Sink
	Len() int
	Last(pid uint32, kinds engine.Events, depth int) *engine.RawEvent
}

func (s *Source) populate(b buffer) error {
	if s.fd < 0 {
		return os.ErrClosed
	}
	s.enrich.delay = 0
	// With b half full its events may not be old enough for one to come late.
	if s.pace.timing && b.Len() < b.Room() && !s.finishing {
		s.enrich.delay = s.pace.interval
	} else {
		s.enrich.release()
	}
	for {
		if s.batch.next == s.batch.n {
			if b.Room() < 1 && !s.enrich.waiting() {
				return nil // what stays in the socket is counted there
			}
			if err := s.fetch(); err != nil {
				s.enrich.release()
				s.handed += s.enrich.flush(b)
				return err
			}
		}
		// The held events have seen the messages that came after their reads.
		s.handed += s.enrich.flush(b)
		if s.batch.n == 0 {
			if s.enrich.readAll() {
				continue
			}
			return nil
		}
		for s.batch.next < s.batch.n {
			// A thread's exit can make two events; one too many does no harm.
			if b.Room()-len(s.enrich.held) < 1 {
				break
			}
			data, genuine := s.batch.message(s.batch.next)
			s.batch.next++
			s.take(data, genuine, b)
		}
		full := s.batch.next < s.batch.n
		if full {
			s.enrich.release()
			s.noteRest()
		}
		read := s.enrich.readAll()
		if full {
			// There is no room to look further.
			s.handed += s.enrich.flush(b)
			return nil
		}
		if !read && s.batch.n < batchSize {
			// The socket was empty, and nothing has to be looked at again.
			s.settleThreads()
			s.handed += s.enrich.flush(b)
			return nil
		}
	}
}

// Finish makes Populate hold nothing back.
func (s *Source) Finish() { s.finishing = true }

// fetch gets a batch and shows its messages to the events being held. The batch
// is empty when the socket is.
func (s *Source) fetch() error {
	for {
		switch errno := s.batch.receive(s.fd); errno {
		case 0:
			s.busy = true
			s.noteRest()
			return nil
		case unix.EAGAIN:
			s.settleThreads()
			return nil
		case unix.EINTR:
		case unix.ENOBUFS:
			// A flag, not a message: the socket dropped something.
			s.overruns++
			s.overrunOpen, s.overrunTime = true, s.enrich.clock.now()
			s.rescan = true
			s.living.forget()
		default:
			return fmt.Errorf("receive from the proc connector: %w", errno)
		}
	}
}

// noteRest shows the messages that have not been taken to the events being held.
func (s *Source) noteRest() {
	if len(s.enrich.byPID) == 0 {
		return
	}
	var m message
	for i := s.batch.next; i < s.batch.n; i++ {
		if data, genuine := s.batch.message(i); genuine && m.decode(data) == nil {
			s.enrich.note(&m)
		}
	}
}

// take handles one message.
func (s *Source) take(data []byte, genuine bool, b buffer) {
	if !genuine {
		s.foreign++
		return
	}
	var m message
	switch err := m.decode(data); {
	case err == nil:
	case errors.Is(err, errNotOurs):
		s.foreign++
		return
	default:
		s.decode++
		return
	}
	var seq uint64
	if m.cpu != cpuOfAck {
		gaps := s.seq.gaps
		seq = s.seq.saw(m.cpu, m.seq, m.time)
		if s.seq.gaps > gaps && !s.filtered {
			s.living.forget()
		}
	}
	if m.what == whatAck {
		s.acks++
		return
	}
	s.received++
	if s.overrunOpen && !s.dropsKnown && !s.filtered && s.seq.settled(s.overrunTime) {
		s.overrunOpen = false
	}
	if !s.filtered && s.seq.gaps > s.rescanGaps {
		s.rescan = true
	}
	if s.rescan && s.enrich.clock.now() >= s.rescanTime+rescanInterval {
		s.learnThreads()
	}
	s.enrich.note(&m)
	revise(b, &m)
	switch m.what {
	case Fork:
		s.fork(&m, seq, b)
	case Exec:
		s.groups.exec(m.pid)
		if s.opts.wants(Exec) {
			s.emit(s.event(b, engine.KindExec, &m, seq), procfs.Readable)
		}
	case Exit:
		s.exit(&m, seq, b)
	default:
		if m.tid != m.pid && !s.threads && m.what != CoreDump {
			return // what one thread did to itself; a core is of the whole process
		}
		if s.opts.wants(m.what) {
			s.emit(s.other(&m, seq, b), 0)
		}
	}
}

// event makes an event of m.
func (s *Source) event(b buffer, kind engine.Kind, m *message, seq uint64) *engine.RawEvent {
	ev := b.Reserve()
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Seq, ev.Time = kind, m.pid, m.tid, m.cpu, seq, m.time
	ev.Thread = m.tid != m.pid
	return ev
}

// emit hands ev on, after /proc has been read for it.
func (s *Source) emit(ev *engine.RawEvent, want engine.Fields) {
	if s.opts.Enrich == EnrichNone || s.proc == nil {
		want = 0
	}
	s.enrich.add(ev, want)
}

func (s *Source) fork(m *message, seq uint64, b buffer) {
	thread := m.tid != m.pid
	if thread {
		s.groups.add(m.pid, m.tid)
	} else {
		s.groups.forget(m.pid)
		if s.opts.wants(Fork) && s.opts.wants(Exit) {
			s.living.born(m.pid, m.time)
		}
	}
	if !s.opts.wants(Fork) || thread && !s.threads {
		return
	}
	ev := s.event(b, engine.KindFork, m, seq)
	setParent(ev, m)
	if thread {
		s.emit(ev, 0)
		return
	}
	s.emit(ev, procfs.Readable)
}

// setParent sets the parent as the kernel says it: real_parent, which for a
// child made with CLONE_PARENT is not who made it.
func setParent(ev *engine.RawEvent, m *message) {
	if m.ppid != 0 {
		ev.Task.PPID = m.ppid
		ev.Task.Known |= engine.FieldPPID.Set()
	}
}

func (s *Source) exit(m *message, seq uint64, b buffer) {
	if m.tid == m.pid {
		m.time = s.living.ended(m.pid, m.time)
	}
	e := s.groups.exit(m)
	if e.ask || e.group && s.rescan {
		e = s.askExit(m, e)
	}
	exits := s.opts.wants(Exit)
	if s.threads && exits && (m.tid != m.pid || !e.group) {
		ev := s.event(b, engine.KindExit, m, seq)
		ev.Thread = true
		setExit(ev, m, int32(m.status))
		s.emit(ev, 0)
	}
	if !e.group || !exits && (!s.opts.wants(NonzeroExit) || e.known && e.status == 0) {
		return
	}
	ev := s.event(b, engine.KindExit, m, seq)
	ev.Thread = false
	setParent(ev, m)
	if e.known {
		setExit(ev, m, e.status)
	}
	s.emit(ev, 0)
}

func setExit(ev *engine.RawEvent, m *message, status int32) {
	ev.Task.Exit = engine.Exit{WaitStatus: status, Time: m.time}
	ev.Task.Known |= engine.FieldExit.Set()
}

// other makes the event of the kinds that carry all they have.
func (s *Source) other(m *message, seq uint64, b buffer) *engine.RawEvent {
	kind := engine.KindIDChange
	switch m.what {
	case Comm:
		kind = engine.KindComm
	case Ptrace:
		kind = engine.KindPtrace
	case CoreDump:
		kind = engine.KindCoreDump
	}
	ev := s.event(b, kind, m, seq)
	t := &ev.Task
	switch m.what {
	case UID:
		ev.IDChange = engine.ChangedUID
		t.Cred.UID, t.Cred.EUID = m.real, m.eff
		t.Known |= engine.FieldUIDs.Set()
	case GID:
		ev.IDChange = engine.ChangedGID
		t.Cred.GID, t.Cred.EGID = m.real, m.eff
		t.Known |= engine.FieldGIDs.Set()
	case SID:
		// setsid(2) makes the caller's group leader the leader of all three.
		ev.IDChange = engine.ChangedSID
		t.SID, t.PGID = m.pid, m.pid
		t.Known |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	case Comm:
		ev.Set(engine.FieldComm, m.newComm())
	case Ptrace:
		ev.Tracer.PID, ev.Tracer.TID = m.tpid, m.ttid
	case CoreDump:
		// The thread that got the signal; the whole process ends.
		ev.Thread = false
		setParent(ev, m)
	}
	return ev
}
