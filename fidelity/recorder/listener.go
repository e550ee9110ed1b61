package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Queue is the queue that a listener reads: a quark.Queue, or a source wrapped as one.
type Queue interface {
	Backend() string
	Capabilities() *engine.CapabilityTable
	Get() (*engine.Event, error)
	Block(time.Duration) error
	Wake()
	Lookup(pid uint32) *engine.Process
	LookupIdentity(engine.Identity) *engine.Process
	Stats() (engine.Stats, error)
	Close() error
}

// Listener reads one queue and stores the delivered events. Between Start and Pause only the
// listener may read the queue.
type Listener struct {
	Queue Queue
	hold  time.Duration
	// lookup enables the comparison with the queue's process table.
	lookup bool

	cancel   context.CancelFunc // nil while paused
	done     chan error
	requests chan chan struct{}

	mu    sync.Mutex
	seen  []score.Seen
	ended map[uint32]uint64 // the stamp of the last EXIT of each pid
	gaps  []engine.Gap

	unreadBefore uint64 // unread at the last forget
}

// NewListener returns a paused listener for a queue with the given HoldTime.
func NewListener(q Queue, hold time.Duration, lookup bool) *Listener {
	return &Listener{
		Queue: q, hold: hold, lookup: lookup, requests: make(chan chan struct{}, 1), ended: make(map[uint32]uint64),
	}
}

// Start reads the queue in the background.
func (l *Listener) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan error, 1)
	go func() { l.done <- l.read(ctx) }()
}

// Pause stops reading. The queue stays open.
func (l *Listener) Pause() error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	l.cancel = nil
	return <-l.done
}

// drainable is a Queue with an orderly end.
type drainable interface {
	Drain() error
	Drained() bool
}

// drain begins the orderly end of the queue and waits until it has delivered all events.
func (l *Listener) drain(patience time.Duration) error {
	if err := l.Queue.(drainable).Drain(); err != nil {
		return err
	}
	l.Queue.Wake()
	select {
	case err := <-l.done:
		l.cancel = nil
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s: the queue did not end within %v of Drain", l.Queue.Backend(), patience)
	}
}

// Close pauses, closes the queue and returns its last counters.
func (l *Listener) Close() (engine.Stats, error) {
	err := l.Pause()
	s, err2 := l.Queue.Stats()
	return s, errors.Join(err, err2, l.Queue.Close())
}

func (l *Listener) read(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.Queue.Wake)()
	for ctx.Err() == nil {
		var asked chan struct{}
		select {
		case asked = <-l.requests:
		default:
		}
		if err := l.readDelivered(); err != nil {
			return err
		}
		if asked != nil {
			close(asked)
		}
		if q, ok := l.Queue.(drainable); ok && q.Drained() {
			return nil
		}
		if err := l.Queue.Block(pulse); err != nil {
			return err
		}
	}
	return nil
}

// pulse is the longest time between two reads, provided that the reader gets a CPU.
const pulse = 250 * time.Millisecond

// readAll returns when all events that were queued before the call have been read from the kernel.
// The queue may still buffer them.
func (l *Listener) readAll() error {
	asked := make(chan struct{})
	l.requests <- asked
	l.Queue.Wake()
	select {
	case <-asked:
		return nil
	case err := <-l.done:
		return l.endedEarly(err)
	}
}

// failed returns an error if the listener stopped early, nil if it runs.
func (l *Listener) failed() error {
	select {
	case err := <-l.done:
		return l.endedEarly(err)
	default:
		return nil
	}
}

// endedEarly returns the error of a listener that has stopped, and stores it for the next caller.
func (l *Listener) endedEarly(err error) error {
	l.done <- err
	return errors.Join(fmt.Errorf("%s: the queue ended early", l.Queue.Backend()), err)
}

// readDelivered stores the events that the queue delivers now.
func (l *Listener) readDelivered() error {
	for {
		ev, err := l.Queue.Get()
		switch {
		case errors.Is(err, engine.ErrNothing):
			return nil
		case err != nil:
			return err
		default:
			l.storeEvent(ev)
		}
	}
}

// arriving is a Queue that delivers events with a delay and records when they arrived.
type arriving interface{ Arrived() uint64 }

func (l *Listener) storeEvent(ev *engine.Event) {
	at := truth.Clock()
	if q, ok := l.Queue.(arriving); ok {
		at = q.Arrived()
	}
	s := score.SeenOf(ev, at)
	if l.lookup {
		s.Table = l.compareTable(ev)
		l.addRelatives(&s, ev)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, s)
	if ev.Events.Has(engine.EventGap) {
		l.gaps = append(l.gaps, ev.Gap)
	}
	if ev.Events.Has(engine.EventExit) && !ev.Thread {
		l.ended[s.Process.PID] = max(s.Time, l.ended[s.Process.PID])
	}
}

// relatives is a Queue that reports the leaders and ancestors of processes.
type relatives interface {
	SessionLeader(*engine.Process) *engine.Process
	GroupLeader(*engine.Process) *engine.Process
	Ancestors(*engine.Process) ([]*engine.Process, bool)
	AppendJSON([]byte, *engine.Event) []byte
}

// addRelatives adds the leaders of the session and group, and the relatives that the event's output
// shows as ended. An event of a bare source has no relatives.
func (l *Listener) addRelatives(s *score.Seen, ev *engine.Event) {
	q, ok := l.Queue.(relatives)
	if !ok {
		return
	}
	s.Leaders = new([2]*engine.Identity)
	list, _ := q.Ancestors(ev.Process)
	for i, leader := range []*engine.Process{q.SessionLeader(ev.Process), q.GroupLeader(ev.Process)} {
		if leader != nil {
			id, _ := leader.Identity()
			s.Leaders[i] = &id
			list = append(list, leader)
		}
	}
	if ev.Events.Has(engine.EventGap) || !slices.ContainsFunc(list, func(p *engine.Process) bool { return p.Exited }) {
		return
	}
	type relative struct {
		PID    uint32
		Start  uint64 `json:"start_boottime"`
		Exited bool
	}
	var printed struct {
		Session   relative `json:"session_leader"`
		Group     relative `json:"group_leader"`
		Ancestors []relative
	}
	if err := json.Unmarshal(q.AppendJSON(nil, ev), &printed); err != nil {
		panic(err)
	}
	for _, r := range append(printed.Ancestors, printed.Session, printed.Group) {
		if r.Exited {
			s.Ended = append(s.Ended, engine.Identity{PID: r.PID, Start: r.Start})
		}
	}
}

// compareTable compares the process of an event with the queue's table, by pid and by identity, and
// describes the difference.
func (l *Listener) compareTable(ev *engine.Event) string {
	p, fields := ev.Process, engine.AllFields.With(engine.FieldEntryLeader).With(engine.FieldPrivileges)
	if ev.Thread {
		id, ok := p.Identity()
		if ev.Events.Has(engine.EventExit) {
			if in := l.Queue.LookupIdentity(id); !ok || in == nil || in.Exited {
				return "" // the process may have ended or be unknown
			}
		}
		// A thread's event has new values of fields that change without an event.
		fields &^= engine.FieldsThread | engine.ChangeUnseen
	}
	known := l.Queue.Lookup(p.PID)
	// If the pid was reused, this is a late event of the previous owner.
	reused := known != nil && (p.Known & known.Known).Has(engine.FieldStart) && known.Start > p.Start
	if what := differs(known, p, fields); what != "" && !reused {
		return "Lookup: " + what
	}
	if id, ok := p.Identity(); ok {
		if what := differs(l.Queue.LookupIdentity(id), p, fields); what != "" {
			return "LookupIdentity: " + what
		}
	}
	return ""
}

// differs names the first of the fields in which two processes differ.
func differs(a, b *engine.Process, fields engine.Fields) string {
	switch {
	case a == b:
		return ""
	case a == nil:
		return "no such process"
	case a.PID != b.PID || a.Exited != b.Exited || (a.Known^b.Known)&fields != 0:
		return fmt.Sprintf("table has pid %d, ended %v, known %s; event has pid %d, ended %v, known %s", a.PID, a.Exited, a.Known, b.PID, b.Exited, b.Known)
	}
	for f := range engine.Field(engine.NumFields) {
		if x, y := truth.ValueOf(a, f), truth.ValueOf(b, f); (a.Known & fields).Has(f) && x != y {
			return fmt.Sprintf("%s: table has %q, event has %q", f, x, y)
		}
	}
	return ""
}

// Balanced waits until all produced events were read or lost, and reports whether that happened. It
// polls: other processes cause events meanwhile, so the sums agree only at some moments.
func (l *Listener) Balanced(patience time.Duration) (s engine.Stats, ok bool, err error) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, err = l.Queue.Stats()
		ok = s.Source.Produced == s.Insertions+s.Lost()
		if ok || err != nil || time.Now().After(end) {
			return s, ok, err
		}
	}
}

// end returns the stamp of the last EXIT of a pid, 0 if none was delivered.
func (l *Listener) end(pid int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[uint32(pid)]
}

// awaits reports whether the end of a process was not delivered and can still arrive. The last
// thread of a process notifies the parent, removes its cached entries from /proc, and then sends
// the proc connector's message. It can be preempted before the message, which can then follow
// messages of processes that started later.
func (l *Listener) awaits(p *truth.Process) bool {
	end := p.Events[len(p.Events)-1]
	latest := end.Latest + l.Queue.Capabilities().Stamps.Ends
	if end.Kind != engine.KindExit || truth.Clock() > latest {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := slices.ContainsFunc(l.gaps, func(g engine.Gap) bool { return end.Earliest <= g.To && g.From <= latest })
	return !lost && l.ended[uint32(p.PID)] < p.Born() // joined: an earlier stamp
}

// Seen returns the events delivered since the last forget. The listener must be paused.
func (l *Listener) Seen() []score.Seen { return l.seen }

func (l *Listener) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.gaps = nil, nil
	l.ended = make(map[uint32]uint64) // a cleared map keeps its memory
	l.unreadBefore = l.unread()
}

// unread returns the number of events and processes that the source could not read from /proc in
// time, 0 if the queue does not count them.
func (l *Listener) unread() uint64 {
	s, _ := l.Queue.Stats()
	return s.Source.Unread + s.Source.Blocked
}

// checkEnded checks that each process with a delivered EXIT is still in the table, with the same
// status. The caller pauses the listener, and calls checkEnded within the queue's grace time.
func (l *Listener) checkEnded() {
	last := make(map[engine.Identity]*score.Seen)
	for i := range l.seen {
		s := &l.seen[i]
		if s.Thread || !s.Events.Has(engine.EventExit) {
			continue
		}
		if id, ok := s.Process.Identity(); ok {
			last[id] = s
		}
	}
	for id, s := range last {
		known := l.Queue.LookupIdentity(id)
		switch {
		case s.Table != "":
		case known == nil:
			s.Table = fmt.Sprintf("LookupIdentity does not find %v after its end", id)
		case !known.Exited || known.Task.Exit.WaitStatus != s.Process.Task.Exit.WaitStatus:
			s.Table = fmt.Sprintf("after the end LookupIdentity returns ended %v, status %#x", known.Exited, known.Task.Exit.WaitStatus)
		}
	}
}
