package audit

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
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

// socket receives the kernel's records.
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

// Capabilities returns the capability table for the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

// FD returns a descriptor for the socket and a timer.
func (s *Source) FD() int {
	if s.closed {
		return -1
	}
	return s.socket.pace.FD()
}

// Arm prepares FD. Under load FD wakes only at intervals, in time for the queue.
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

// Held returns a lower bound for the times of the events in the queue.
func (s *Source) Held() (oldest uint64, ok bool) { return s.last, len(s.queue.events) > 0 }

// Finish makes Populate deliver all events without waiting. If the process of an event is
// uncertain, the fields from /proc are missing.
func (s *Source) Finish() { s.finishing = true }

// Close removes the rules and closes the socket. It disables audit if a source had enabled it and
// nobody else uses it.
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

// Stats returns the counters. Lost events are system calls, including calls that are no events,
// such as the birth of a thread. If the kernel had no room for records, only their number is known,
// and each counts as one event.
func (s *Source) Stats() (engine.SourceStats, error) {
	st := engine.SourceStats{Lost: s.loss.lost, Bound: s.loss.bound || s.loss.pending}
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}
