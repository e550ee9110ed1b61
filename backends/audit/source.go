package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
)

// Source is the kernel's audit as an [engine.Source]. Close needs CAP_AUDIT_CONTROL, to remove the
// rules.
type Source struct {
	shared source.Options
	exits  source.Options // the same without CORE_DUMP
	opts   Options
	caps   engine.CapabilityTable
	rules  rules
	closed bool
	hold   uint64 // ns that an event waits in the queue
	// slack is by how many ns a stamp is behind the begin of its call at most: two ticks, as
	// the CPU that keeps the time can leave one out when it gives that to another, and the rest
	// of its millisecond.
	slack uint64

	fd    int
	batch *nlsocket.Batch
	pace  *pace.Pacer
	busy  bool // there were records since Arm
	now   func() uint64

	proc       *procfs.Reader
	clock      procfs.BootClock
	scratch    engine.RawEvent
	showStatus bool // /proc shows the status of a process that has ended

	queue  queue
	open   []*event // of which records are still to come
	early  []uint32 // numbers of events that were concluded without their last record
	toRead []*event
	lives  lives
	told   map[uint32]uint64 // stamps of the latest events that were told, by pid
	untold uint64            // time of the latest event that told has forgotten
	births map[uint32]bool   // pids whose birth was concluded, and whose end was not
	abends map[uint32]uint64 // processes that a signal has ended that dumps core, and when

	older   map[uint32]uint64 // processes that were there at the start, and their start times
	listed  uint64            // when they were, at the latest
	opened  uint64            // all that is told is of after it
	wall    int64             // CLOCK_REALTIME less CLOCK_MONOTONIC
	stepped uint64            // when the wall clock was last seen to be set, 0 for never
	noted   uint64            // all that was received before was read
	idle    uint64            // when the socket was last empty
	last    uint64            // time of the latest event

	serials  serials
	drops    uint32 // of the socket, as last seen
	lastDrop uint64 // when they were last seen to grow
	dropped  []drop // of which events may not have been told yet
	lossTo   uint64 // when something was last lost
	lost     [engine.NumLosses]uint64
	backlog  backlog
	disabled bool // somebody has disabled audit
	restore  bool // somebody has removed rules of this source
	foreign  bool // somebody has changed other rules
	// hiddenFrom is since when rules of others hide something that was not told, 0 for not.
	hiddenFrom uint64
	added      int    // rules that records since the last look tell of
	revealed   bool   // somebody has removed a rule of the list exclude since then
	looked     uint64 // when the rules were last looked at, 0 if they can't be
	lookEvery  uint64 // ns from one look to the next, as changes can be hidden too

	to        engine.Sink // of the Populate in its course
	size      int         // the most room that the sink had
	finishing bool
	handed    uint64
	unread    uint64
}

var _ interface {
	engine.Source
	engine.Finisher
	engine.Holder
} = (*Source)(nil)

const (
	batchSize  = 64
	maxMessage = 24 << 10 // a record of a path of 4 KiB, in digits, and what else it has
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
	return s.pace.FD()
}

// Arm prepares FD: under load it wakes at intervals only, and in time for the queue.
func (s *Source) Arm(idle bool) bool {
	if s.closed || s.batch.Next < s.batch.N {
		return false
	}
	due := s.backlog.due
	if len(s.queue.events) > 0 {
		at := s.due(s.queue.oldest())
		if due == 0 || at < due {
			due = at
		}
	}
	if look := s.looked + s.lookEvery; s.looked != 0 && (due == 0 || look < due) {
		due = look
	}
	s.pace.Arm(s.busy && !idle, due, s.now())
	s.busy = false
	return true
}

// Held returns a time no later than that of the oldest event in the queue.
func (s *Source) Held() (oldest uint64, ok bool) {
	if len(s.queue.events) > 0 {
		return s.queue.events[0].stamp, true
	}
	return 0, false
}

// Finish makes Populate hold nothing back: events whose process is not certain yet lack what /proc
// has.
func (s *Source) Finish() { s.finishing = true }

// Populate moves what the socket holds into the queue, and what has waited there long enough to the
// sink. Events in the queue count as events in the sink, so that a full sink leaves records in the
// socket, where they are counted.
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
		s.look()
		s.noteDrops()
		// With the sink half full its events get younger, and one could come too late.
		lost := s.settle(full || s.finishing, 2*(to.Room()-len(s.queue.events)) <= s.size)
		s.checkLoss(lost)
	}
	s.checkBacklog()
	err := s.react()
	if err != nil { // no more comes
		s.checkLoss(s.settle(true, true))
	}
	if (err != nil || s.finishing) && s.hiddenFrom != 0 {
		s.unseen(s.hiddenFrom)
		s.hiddenFrom = 0
	}
	return err
}

// drain reads a batch of records. emptied is set if none is left, full if there is no room for
// them.
func (s *Source) drain() (emptied, full bool, err error) {
	for {
		for n := 0; s.batch.Next < s.batch.N; n++ {
			if s.to.Room() <= len(s.queue.events)+1 {
				return false, true, nil
			}
			data, genuine := s.batch.Message(s.batch.Next)
			s.batch.Next++
			if genuine {
				s.message(data)
			}
			if s.batch.Next == s.batch.N {
				return false, false, nil
			}
		}
		began := s.now()
		switch errno := s.batch.Receive(s.fd); errno {
		case 0:
			s.busy = true
			s.noteWall()
		case unix.EAGAIN:
			s.noted, s.idle = began, began
			return true, false, nil
		case unix.EINTR, unix.ENOBUFS: // the count of the socket tells what it dropped
		default:
			return false, false, fmt.Errorf("receive from audit: %w", errno)
		}
	}
}

// settling is for how long after the wall clock was set stamps of before may come, and longer if
// the socket was not emptied since.
const settling = 1_000_000_000

// noteWall looks whether the wall clock was set.
func (s *Source) noteWall() {
	wall, error := clock.WallOffset()
	if error > wallError/2 { // this thread lost its CPU each time
		return
	}
	// What is less is the error of the readings: stamps of one tick have to stay the same.
	if d := wall - s.wall; d > wallError || d < -wallError {
		s.stepped, s.wall = s.now(), wall
	}
}

// stampOf returns the time of a record's stamp. Where the wall clock was set it can't be told, and
// is that of the receipt.
func (s *Source) stampOf(r *auditrecord.Record, now uint64) uint64 {
	at := int64(r.Time)*1_000_000 - s.wall
	if s.stepped != 0 && (now < s.stepped+settling || s.noted < s.stepped) || at < 0 {
		return now
	}
	return min(uint64(at), now)
}

// message takes a record.
func (s *Source) message(data []byte) {
	if len(data) < unix.SizeofNlMsghdr {
		s.undecoded()
		return
	}
	var r auditrecord.Record
	kind := auditrecord.Type(binary.NativeEndian.Uint16(data[4:]))
	if kind < auditrecord.First || kind > auditrecord.Last {
		return
	}
	if r.Parse(kind, data[unix.SizeofNlMsghdr:]) != nil {
		s.undecoded()
		return
	}
	now := s.now()
	s.serials.saw(r.Serial, s.missing(now))
	s.backlog.note(now)
	switch kind {
	case auditrecord.Abend:
		s.abend(&r, now)
		return
	case auditrecord.ConfigChange:
		s.configChange(&r)
		return
	case auditrecord.Syscall, auditrecord.Execve, auditrecord.Path, auditrecord.EndOfEvent:
	default:
		return
	}
	if i := slices.Index(s.early, r.Serial); i >= 0 {
		if kind == auditrecord.EndOfEvent {
			s.early = slices.Delete(s.early, i, i+1)
		}
		return
	}
	e := s.eventOf(&r, now)
	e.add(&r)
	switch {
	case kind == auditrecord.Syscall && !e.known:
		s.undecoded()
	case kind == auditrecord.Syscall:
		s.begin(e)
	case e.complete:
		s.open = slices.DeleteFunc(s.open, func(o *event) bool { return o == e })
	}
}

// eventOf returns the event that a record belongs to.
func (s *Source) eventOf(r *auditrecord.Record, now uint64) *event {
	for _, e := range slices.Backward(s.open) {
		if e.serial == r.Serial {
			return e
		}
	}
	e := s.queue.take()
	e.serial, e.stamp, e.received, e.missing = r.Serial, s.stampOf(r, now), now, s.missing(now)
	s.queue.put(e)
	s.open = append(s.open, e)
	return e
}

// abend notes the end of a process by a signal that dumps core.
func (s *Source) abend(r *auditrecord.Record, now uint64) {
	if len(s.abends) > 1<<10 {
		clear(s.abends)
	}
	for m := r.Members(); ; {
		name, v, ok := m.Next()
		if !ok {
			return
		}
		if string(name) == "pid" {
			if pid, ok := proctext.Uint32(v); ok {
				s.abends[pid] = now
			}
		}
	}
}

func (s *Source) undecoded() {
	s.lost[engine.LossDecode]++
	s.gap(engine.Gap{Cause: engine.LossDecode, CPU: engine.AllCPUs, From: s.idle, To: s.now(), Count: 1})
}

// gap gives a gap to the sink, and forgets what it may have changed.
func (s *Source) gap(g engine.Gap) {
	ev := s.to.Reserve()
	ev.SetGap(g)
	s.to.Insert(ev)
	s.lossTo = max(s.lossTo, g.To)
	clear(s.lives)
}

// Close removes the rules, closes the socket, and disables audit if a source has enabled it and
// nobody else uses it now.
func (s *Source) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.rules.control != nil {
		errs = append(errs, s.rules.remove(), s.rules.disable())
		s.rules.control.Close()
	}
	if s.backlog.control != nil {
		s.backlog.control.Close()
	}
	if s.fd >= 0 {
		unix.Close(s.fd)
	}
	if s.pace != nil {
		s.pace.Close()
	}
	if s.proc != nil {
		s.proc.Close()
	}
	s.queue, s.open, s.toRead = queue{}, nil, nil
	return errors.Join(errs...)
}

// Stats returns the counters. Lost are system calls, also those that would have become no event, as
// the birth of a thread. Of what the kernel had no room for it is known how many records are
// missing, each of which is counted as one.
func (s *Source) Stats() (engine.SourceStats, error) {
	st := engine.SourceStats{Lost: s.lost, Unread: s.unread, Bound: s.backlog.bound || len(s.dropped) > 0}
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}
