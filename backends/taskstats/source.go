package taskstats

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/stock"
)

// Source is the exit listener of taskstats as an [engine.Source]. It needs no privilege after Open.
type Source struct {
	shared    source.Options
	opts      Options
	kernel    taskrecord.Kernel
	listeners []listener
	ready     int // epoll descriptor of their sockets
	pace      *pace.Pacer
	busy      bool // there were records since Arm
	events    []unix.EpollEvent
	batch     *nlsocket.Batch
	current   *listener // whose records are in the batch
	arrived   uint64    // when they were received
	idle      uint64    // when all sockets were last empty
	proc      *procfs.Reader
	caps      engine.CapabilityTable
	closed    bool

	groups groups
	doubts doubts
	// spreads is set if a core dump sets the wait status of all that share the memory, also of
	// one that ends with another: before Linux 5.16.
	spreads bool

	to      engine.Sink // of the Populate in its course
	handed  uint64
	decode  uint64
	told    uint64 // records that miss by their numbers alone, and that a gap has told of
	surplus uint64 // since when more miss by their numbers than gaps tell of, 0 for not
	checked uint64 // the last time when they were not
	trimmer stock.Timer
}

var _ engine.Source = (*Source)(nil)

const batchSize = 32

// pacing is for records: an end is stamped when its record is received.
var pacing = pace.Options{Interval: 5_000_000, Burst: 100, Refill: 5_000_000}

// Open listens to the ends of all threads.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := setDefaults(&o); err != nil {
		return nil, err
	}
	if err := shared.CheckTypes(); err != nil {
		return nil, err
	}
	s := &Source{shared: shared, opts: o, ready: -1, batch: nlsocket.NewBatch(batchSize, taskrecord.MaxMessage)}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Source) open() (err error) {
	if err := nlsocket.CheckNetwork(); err != nil {
		return err
	}
	conn, err := taskrecord.Dial()
	if err != nil {
		return err
	}
	s.kernel, err = taskrecord.Probe(conn)
	conn.Close()
	if err != nil {
		return err
	}
	if s.shared.Threads && !s.kernel.Marked {
		return fmt.Errorf("report threads: before Linux 5.19 a record does not tell the process of its thread: %w", errors.ErrUnsupported)
	}
	if s.proc, err = procfs.Open(); err != nil {
		s.proc = nil // it is known of less processes how they ended
	}
	s.groups = groups{view: s.proc, last6: kernelversion.AtLeast("6.0"), blind: clock.Monotonic()}
	s.spreads = !kernelversion.AtLeast("5.16")
	if s.ready, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create epoll descriptor: %w", err)
	}
	if s.listeners, err = listen(&s.kernel, s.opts.ReceiveBuffer, clock.Monotonic); err != nil {
		return err
	}
	s.events = make([]unix.EpollEvent, min(len(s.listeners), 64))
	for i := range s.listeners {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(s.ready, unix.EPOLL_CTL_ADD, s.listeners[i].fd, &ev); err != nil {
			return fmt.Errorf("add descriptor to epoll: %w", err)
		}
	}
	if s.pace, err = pace.New(pacing, s.ready); err != nil {
		return err
	}
	s.checked = clock.Monotonic()
	s.caps = s.capabilities()
	return s.shared.LeaveOut(&s.caps)
}

// Name is "taskstats".
func (s *Source) Name() string { return "taskstats" }

// FD polls readable while a socket has records, or some time after the first of them: see Arm.
func (s *Source) FD() int { return s.pace.FD() }

// Arm prepares FD. While the engine is not idle records wake at intervals only, if there are many.
func (s *Source) Arm(idle bool) bool {
	if s.batch.Next < s.batch.N {
		return false
	}
	s.pace.Arm(s.busy && !idle, s.groups.next(), clock.Monotonic())
	s.busy = false
	return true
}

// Close closes the sockets: the kernel forgets listeners that are gone.
func (s *Source) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	for i := range s.listeners {
		l := &s.listeners[i]
		l.told = max(l.told, l.dropped()) // for Stats
		unix.Close(l.fd)
	}
	if s.ready >= 0 {
		unix.Close(s.ready)
	}
	if s.pace != nil {
		s.pace.Close()
	}
	if s.proc != nil {
		s.proc.Close()
	}
	return nil
}

// Populate moves what the sockets hold to the sink.
func (s *Source) Populate(to engine.Sink) error {
	if s.closed {
		return os.ErrClosed
	}
	s.to = to
	for {
		if emptied, err := s.drain(); !emptied || err != nil {
			return err
		}
		now := clock.Monotonic()
		doubts, overs := s.doubts.look(s.proc), s.groups.lookOvers(now)
		if seen := s.groups.look(now); doubts == 0 && overs == 0 && !seen {
			break
		}
		// What is still to come of before the looks shows of which processes they were.
		if emptied, err := s.drain(); !emptied || err != nil {
			s.groups.seen = s.groups.seen[:0] // a later end brings another look
			return err
		}
		s.groups.confirm()
		s.settleDoubts(doubts)
		s.groups.settleOvers(overs, func(o *over, status int32, known bool) { s.end(&o.r, o.cpu, o.at, status, known) })
	}
	now := clock.Monotonic()
	s.checkNumbers(now)
	if s.trimmer.Due(now) {
		s.groups.trim(now)
		s.doubts.trim()
	}
	return nil
}

// drain reads all sockets that have something, and reports whether they are empty now.
func (s *Source) drain() (emptied bool, err error) {
	for {
		if full := s.take(); full {
			return false, nil
		}
		before := clock.Monotonic()
		n, err := unix.EpollWait(s.ready, s.events, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("wait for taskstats: %w", err)
		case n == 0:
			s.idle = before
			return true, nil
		}
		for _, ev := range s.events[:n] {
			if full, err := s.read(&s.listeners[ev.Fd]); full || err != nil {
				return false, err
			}
		}
	}
}

// read takes what a socket holds, and reports whether the sink has no room for the rest.
func (s *Source) read(l *listener) (full bool, err error) {
	s.current = l
	for {
		if s.to.Room() <= 0 {
			return true, nil // what stays in the socket is counted there
		}
		before := clock.Monotonic()
		switch errno := s.batch.Receive(l.fd); errno {
		case 0:
			s.arrived, s.busy = clock.Monotonic(), true
			if full := s.take(); full {
				return true, nil
			}
		case unix.EAGAIN:
			if l.congested {
				l.congested = false
				s.tell(l)
			}
			l.from = before
			return false, nil
		case unix.EINTR:
		case unix.ENOBUFS: // a flag, not a message: the socket dropped something
			l.congested = true
			s.tell(l)
		default:
			return false, fmt.Errorf("receive from taskstats: %w", errno)
		}
	}
}

// tell reports what a socket has dropped.
func (s *Source) tell(l *listener) {
	l.from = max(l.from, s.idle)
	if g, ok := l.gap(clock.Monotonic()); ok {
		s.gap(g)
	}
}

func (s *Source) gap(g engine.Gap) {
	ev := s.to.Reserve()
	ev.SetGap(g)
	s.to.Insert(ev)
	s.groups.lose(g.To)
}

// take takes the records in the batch, and reports whether the sink has no room for the rest.
func (s *Source) take() (full bool) {
	for s.batch.Next < s.batch.N {
		if s.to.Room() <= 0 {
			return true
		}
		data, genuine := s.batch.Message(s.batch.Next)
		s.batch.Next++
		if genuine {
			s.record(data)
		}
	}
	return false
}

// record handles a message of the kernel.
func (s *Source) record(data []byte) {
	var r taskrecord.Record
	if r.Decode(data, &s.kernel) != nil {
		s.decode++
		s.gap(engine.Gap{Cause: engine.LossDecode, CPU: s.current.cpu, From: max(s.current.from, s.idle), To: s.arrived, Count: 1})
		return
	}
	s.current.seq.saw(r.Seq, s.current.told)
	switch {
	case !s.kernel.Marked:
		s.unmarked(&r)
	case r.Last:
		if s.shared.Threads && r.PID != r.TGID {
			s.threadEnd(&r)
		}
		// No other thread has ever ended in it, or it is not seen which.
		if !r.Several || s.proc == nil {
			s.end(&r, s.current.cpu, s.arrived, r.Status, !r.Several || groupstatus.Certain(r.Status))
			return
		}
		from := max(s.current.from, s.idle)
		s.groups.last(over{r: r, cpu: s.current.cpu, at: s.arrived, born: from - min(from, r.Age+straggle)})
	default:
		if s.shared.Threads {
			s.threadEnd(&r)
		}
		if s.proc != nil {
			s.groups.thread(&r)
		}
	}
}

// threadEnd reports the end of a thread.
func (s *Source) threadEnd(r *taskrecord.Record) {
	ev := s.event(r, s.current.cpu, s.arrived)
	ev.TID, ev.Thread = r.PID, true
	setStatus(ev, r.Status)
	s.handed += uint64(s.shared.InsertExit(s.to, ev))
}

// end reports the end of a process.
func (s *Source) end(r *taskrecord.Record, cpu uint32, at uint64, status int32, known bool) {
	ev := s.event(r, cpu, at)
	ev.TID = r.PID
	if r.PPID != 0 {
		ev.Task.PPID = r.PPID
		ev.Task.Known |= engine.FieldPPID.Set()
	}
	if r.PID == ev.PID { // else it has the name of another thread
		name, _, _ := bytes.Cut(r.Comm[:], []byte{0})
		ev.Set(engine.FieldComm, name)
	}
	if known {
		setStatus(ev, status)
		if s.spreads && !groupstatus.Certain(status) {
			ev.Task.Carried |= engine.FieldExit.Set()
		}
	}
	r.SetUsage(ev)
	s.handed += uint64(s.shared.InsertExit(s.to, ev))
}

// event returns the event of an end, of a process that r tells, or that has one thread.
func (s *Source) event(r *taskrecord.Record, cpu uint32, at uint64) *engine.RawEvent {
	ev := s.to.Reserve()
	ev.Kind, ev.PID, ev.CPU, ev.Time = engine.KindExit, r.TGID, cpu, at
	if ev.PID == 0 {
		ev.PID = r.PID
	}
	return ev
}

func setStatus(ev *engine.RawEvent, status int32) {
	ev.Task.Exit = engine.Exit{WaitStatus: status, Time: ev.Time}
	ev.Task.Known |= engine.FieldExit.Set()
}

// checkNumbers tells of records that are missing by their numbers alone: those that the kernel had
// no memory to send. A number that is missing on one CPU can still come to the socket of another.
func (s *Source) checkNumbers(now uint64) {
	var missing, foreign, dropped uint64
	for i := range s.listeners {
		l := &s.listeners[i]
		missing, foreign, dropped = missing+l.seq.missing, foreign+l.seq.foreign, dropped+l.told
	}
	known := foreign + dropped + s.told
	switch {
	case missing <= known:
		s.surplus, s.checked = 0, now
	case s.surplus == 0:
		s.surplus = now
	case now >= s.surplus+straggle:
		n := missing - known
		s.told += n
		s.gap(engine.Gap{Cause: engine.LossScratch, CPU: engine.AllCPUs, From: s.checked, To: now, Count: n})
	}
}

// Stats returns the counters.
func (s *Source) Stats() (engine.SourceStats, error) {
	var st engine.SourceStats
	for i := range s.listeners {
		l := &s.listeners[i]
		if s.closed {
			st.Lost[engine.LossSocketFull] += l.told
		} else {
			st.Lost[engine.LossSocketFull] += l.dropped()
		}
	}
	st.Lost[engine.LossScratch], st.Lost[engine.LossDecode] = s.told, s.decode
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}

// Capabilities returns what this source reports on the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }
