package audit

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
)

var _ interface {
	engine.Source
	engine.Finisher
	engine.Holder
} = (*Source)(nil)

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
		// When the sink is half full, the engine delivers events earlier, and a held event
		// could arrive too late.
		early := 2*(to.Room()-len(s.queue.events)) <= s.size
		s.conclude(full || early || emptied && s.finishing)
	}
	s.checkBacklog()
	err := s.handleChanges()
	if err != nil { // no more records come
		s.conclude(true)
	}
	return err
}

// drain handles the rest of a batch of records, or receives one. emptied is set if no record is
// left, full if the sink has no room for the records.
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

// begin attaches a raw event to an event whose call is known.
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
