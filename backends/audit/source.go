package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/clock"
)

// Source is the kernel's audit as an [engine.Source]. Close needs CAP_AUDIT_CONTROL, to remove the
// rules.
type Source struct {
	shared source.Options
	opts   Options
	caps   engine.CapabilityTable
	rules  rules
	closed bool

	socket  socket
	wall    wallClock
	now     func() uint64
	proc    *procfs.Reader
	boot    procfs.BootClock
	scratch engine.RawEvent

	queue   queue
	toRead  []*event          // events with a process to read from /proc
	latest  map[uint32]latest // by pid
	hold    uint64            // ns that an event waits in the queue
	last    uint64            // time of the latest event
	loss    loss
	changed changes

	to        engine.Sink // of the current call of Populate
	size      int         // largest room of the sink so far
	finishing bool
	handed    uint64
}

var _ interface {
	engine.Source
	engine.Finisher
	engine.Holder
} = (*Source)(nil)

// latest is the latest event that was reported of a pid.
type latest struct {
	stamp, time uint64
	end         bool
}

// socket is where the kernel sends records.
type socket struct {
	fd    int
	batch *nlsocket.Batch
	pace  *pace.Pacer
	busy  bool   // there were records since Arm
	empty uint64 // when it was last empty: all earlier records were read
}

const (
	batchSize  = 64
	maxMessage = 24 << 10 // a record with a path of 4 KiB in digits, and its other members
)

// Name is "audit".
func (s *Source) Name() string { return "audit" }

// Capabilities returns what this source reports on the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

// FD is a descriptor over the socket and a timer.
func (s *Source) FD() int {
	if s.closed {
		return -1
	}
	return s.socket.pace.FD()
}

// Arm prepares FD: under load it wakes at intervals only, and in time for the queue.
func (s *Source) Arm(idle bool) bool {
	k := &s.socket
	if s.closed || k.batch.Next < k.batch.N {
		return false
	}
	due := s.loss.backlog.due
	if q := s.queue.events; len(q) > 0 && (due == 0 || q[0].at+s.hold < due) {
		due = q[0].at + s.hold
	}
	k.pace.Arm(k.busy && !idle, due, s.now())
	k.busy = false
	return true
}

// Held returns a lower bound of the times of the events in the queue.
func (s *Source) Held() (oldest uint64, ok bool) { return s.last, len(s.queue.events) > 0 }

// Finish makes Populate deliver all events without waiting: events of uncertain processes lack the
// fields from /proc.
func (s *Source) Finish() { s.finishing = true }

// Populate moves the records in the socket into the queue, and events that have waited long enough
// to the sink. Events in the queue count as events in the sink, so that a full sink leaves records
// in the socket, where they are counted.
func (s *Source) Populate(to engine.Sink) error {
	if s.closed {
		return os.ErrClosed
	}
	s.to, s.size = to, max(s.size, to.Room())
	for emptied, full := false, false; !emptied && !full; {
		var err error
		if emptied, full, err = s.drain(); err != nil {
			return err
		}
		s.readProcesses()
		s.checkDrops()
		// With the sink half full its events get younger, and one could come too late.
		early := 2*(to.Room()-len(s.queue.events)) <= s.size
		s.conclude(full || early || emptied && s.finishing)
	}
	s.checkBacklog()
	err := s.react()
	if err != nil { // no more records come
		s.conclude(true)
	}
	return err
}

// drain handles the rest of a batch of records, or fetches one. It reports whether no record is
// left, and whether the sink has no room for them.
func (s *Source) drain() (emptied, full bool, err error) {
	k := &s.socket
	for k.batch.Next == k.batch.N {
		began := s.now()
		switch errno := k.batch.Receive(k.fd); errno {
		case 0:
			k.busy = true
			s.wall.update()
		case unix.EAGAIN:
			k.empty = began
			return true, false, nil
		case unix.EINTR, unix.ENOBUFS: // the socket counts dropped records
		default:
			return false, false, fmt.Errorf("receive from audit: %w", errno)
		}
	}
	for ; k.batch.Next < k.batch.N; k.batch.Next++ {
		if s.to.Room() <= len(s.queue.events)+1 {
			return false, true, nil
		}
		if data, genuine := k.batch.Message(k.batch.Next); genuine && len(data) >= unix.SizeofNlMsghdr {
			s.add(auditrecord.Type(binary.NativeEndian.Uint16(data[4:])), data[unix.SizeofNlMsghdr:])
		}
	}
	return false, false, nil
}

// add adds a record to its event.
func (s *Source) add(kind auditrecord.Type, text []byte) {
	var r auditrecord.Record
	if kind < auditrecord.First || kind > auditrecord.Last {
		return
	}
	if r.Parse(kind, text) != nil {
		s.gap(engine.LossDecode, s.last, 1)
		return
	}
	now := s.now()
	s.loss.backlog.arm(now)
	if r.Type == auditrecord.ConfigChange {
		s.changed.add(&r, s.rules.key)
	}
	e, isNew := s.queue.get(r.Serial)
	if e == nil || e.state == concluded {
		return
	}
	if isNew {
		e.stamp, e.received, e.at = s.wall.stamp(&r, now), now, now
	}
	if e.add(&r); r.Type == auditrecord.Syscall && e.state == known {
		s.begin(e)
	}
}

// begin attaches the raw event that an event with a known call may become.
func (s *Source) begin(e *event) {
	kind, pid := engine.KindFork, e.pid
	switch {
	case e.isBirth():
		pid = e.child()
	case e.executes():
		kind = engine.KindExec
	case e.isExec():
		kind = engine.KindExecFailed
	case e.isEnd():
		kind = engine.KindExit
	case e.nr == auditrecord.SetSID && e.success:
		kind = engine.KindIDChange
	default:
		return
	}
	if s.shared.Reports(kind.Events()) {
		e.ev = s.to.Reserve()
		e.ev.Kind, e.ev.PID, e.ev.TID = kind, pid, pid
		s.toRead = append(s.toRead, e)
	}
}

// wallClock converts the stamps of records, which are of CLOCK_REALTIME.
type wallClock struct {
	offset int64  // CLOCK_REALTIME less CLOCK_MONOTONIC
	slack  uint64 // ns that a stamp can be behind the begin of its call
}

// wallError is the largest error, in ns, of the offset that converts the stamps.
const wallError = 500_000

// newWallClock allows for two ticks and the rest of a millisecond: the CPU that keeps the time can
// leave out a tick when it passes that task to another CPU.
func newWallClock() (w wallClock) {
	w.offset, _ = clock.WallOffset()
	w.slack = 2*clock.Tick() + 1_000_000 + wallError
	return w
}

// update follows the wall clock. A small difference is the error of the readings.
func (w *wallClock) update() {
	offset, error := clock.WallOffset()
	if d := offset - w.offset; error <= wallError/2 && (d > wallError || d < -wallError) {
		w.offset = offset
	}
}

// stamp returns the time of a record that is read now.
func (w *wallClock) stamp(r *auditrecord.Record, now uint64) uint64 {
	return uint64(min(max(int64(r.Time)*1_000_000-w.offset, 0), int64(now)))
}

// Close removes the rules, closes the socket, and disables audit if a source has enabled it and no
// one else uses it now.
func (s *Source) Close() (err error) {
	if s.closed {
		return nil
	}
	s.closed = true
	if s.rules.control != nil {
		err = errors.Join(s.rules.close(), s.rules.control.Close())
	}
	s.loss.backlog.close()
	if s.socket.fd >= 0 {
		unix.Close(s.socket.fd)
	}
	if s.socket.pace != nil {
		s.socket.pace.Close()
	}
	if s.proc != nil {
		s.proc.Close()
	}
	s.queue, s.toRead = queue{}, nil
	return err
}

// Stats returns the counters. Lost events are system calls, including calls that become no event,
// such as the birth of a thread. If the kernel had no room for records, only the number of records
// is known, and each counts as one.
func (s *Source) Stats() (engine.SourceStats, error) {
	st := engine.SourceStats{Lost: s.loss.lost, Bound: s.loss.bound || s.loss.pending}
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}
