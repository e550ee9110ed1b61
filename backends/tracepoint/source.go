package tracepoint

import (
	"errors"
	"os"
	"slices"

	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/stock"
)

// Source delivers the events of perf's tracepoints. It implements [engine.Source]. After Open it
// uses only its descriptors, shared memory and /proc, so that the process may drop its privileges
// and change its root; a CPU that comes online later then can't be added any more.
type Source struct {
	caps      engine.CapabilityTable
	shared    source.Options
	exits     source.Options // the same without CORE_DUMP
	ringSize  int
	namesSize int    // of a ring of new names
	hold      uint64 // ns that an event waits in the queue
	closed    bool

	layouts []*layout
	byID    []*layout // by the first two bytes of a record
	byWhat  [numHooks]*layout
	names   bool   // new names come
	renames uint64 // ID of the tracepoint that counts them, 0 if nobody wants to know them
	births  bool   // each new process comes
	dead    bool   // the kernel tells the end of a process from that of a thread

	cpus     []*cpu
	rings    []*ring // of all CPUs
	online   *perf.Online
	pace     *pace.Pacer
	busy     bool   // there were records since Arm
	blind    bool   // something was lost that nobody counts
	unseen   []int  // CPUs that came online since then, -1 for any
	followed uint64 // when CPUs were last looked for with nothing left in the rings
	opened   uint64 // when the events of all CPUs were enabled

	proc       *procfs.Reader
	clock      procfs.BootClock
	showStatus bool // /proc shows the status of a process that has ended

	queue   queue
	trimmer stock.Timer
	toRead  []*entry
	execs   stock.Map[uint32, *entry]  // the latest exec of a process in the queue
	born    stock.Map[uint32, births]  // of the processes of a pid in the queue
	naming  stock.Map[uint32, newName] // of a process: the name that an exec under way has set
	groups  *groups                    // nil if the kernel tells the ends

	noted            uint64 // all that happened before was read from the rings
	lossFrom, lossTo uint64 // something may be lost between these, 0 for nothing
	relearn          bool   // the threads that there are have to be learned, after a loss
	learned          uint64 // when that was done
	size             int    // the most room that the sink had
	finishing        bool   // see Finish

	handed     uint64
	lost       uint64 // records that are known to miss between those that were read
	namesLost  uint64 // records of new names that may have been events, or perf.Unknown
	namesSince uint64 // when they were found to be lost
	execNames  uint64 // names that execs have set: read, or known to be lost
	decode     uint64
	unread     uint64
}

var _ interface {
	engine.Source
	engine.Finisher
	engine.Holder
} = (*Source)(nil)

// newName is a name of a thread.
type newName struct {
	n    uint8
	text [sizeText]byte
}

// births are the last two births of processes with a pid, 0 for none.
type births struct{ last, before uint64 }

func (b births) with(time uint64) births {
	return births{max(b.last, time), max(b.before, min(b.last, time))}
}

// within reports whether a process may have been born after a time and by another.
func (b births) within(after, by uint64) bool {
	return b.before > after || b.last > after && b.last <= by
}

// Name returns "tracepoint".
func (s *Source) Name() string { return "tracepoint" }

// Capabilities says which events and fields there are on this kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

// FD is a descriptor over the rings of all CPUs and a timer.
func (s *Source) FD() int {
	if s.closed {
		return -1
	}
	return s.pace.FD()
}

// Arm prepares FD: under load it wakes at intervals only, and in time for the queue.
func (s *Source) Arm(idle bool) bool {
	if s.closed {
		return false
	}
	var due uint64
	if e := s.queue.oldest(); e != nil {
		due = s.due(e)
	}
	s.pace.Arm(s.busy && !idle, due, clock.Monotonic())
	s.busy = false
	// Who polls a ring is told of a record once.
	return s.pace.Timed() || !slices.ContainsFunc(s.rings, func(r *ring) bool { return r.mapped.Pending() > 0 })
}

// Held returns the time of the oldest event in the queue.
func (s *Source) Held() (oldest uint64, ok bool) {
	if e := s.queue.oldest(); e != nil {
		return e.time, true
	}
	return 0, false
}

// Finish makes Populate hold nothing back: events whose process is not certain yet lack what /proc
// has.
func (s *Source) Finish() { s.finishing = true }

// batch is how many records are read before /proc is.
const batch = 128

// Populate moves what the rings hold into the queue, and what has waited there long enough to the
// sink. Events in the queue count as events in the sink, so that a full sink leaves records in the
// rings, where they are counted.
func (s *Source) Populate(to engine.Sink) error {
	if s.closed {
		return os.ErrClosed
	}
	s.size = max(s.size, to.Room())
	for emptied, full := false, false; !emptied && !full; {
		emptied, full = s.readRings(to)
		s.readProc()
		s.releaseRings()
		// With the sink half full its events get younger, and one could come too late.
		force := full || s.finishing || 2*(to.Room()-s.queue.len()) <= s.size
		s.settle(to, force)
	}
	if s.trimmer.Due(s.noted) {
		s.trim()
	}
	s.followCPUs()
	s.closeGone()
	return nil
}

// trim lets go of memory that was not needed since the last call.
func (s *Source) trim() {
	s.queue.trim()
	s.execs.Trim()
	s.born.Trim()
	s.naming.Trim()
	if s.groups != nil {
		s.groups.byPID.Trim()
	}
}

// readRings reads a batch of records, the oldest first. emptied is set if none is left, full if
// there is no room for them.
func (s *Source) readRings(to engine.Sink) (emptied, full bool) {
	n := 0
	more := func() bool { return n < batch && to.Room() > s.queue.len() }
	for more() {
		began := clock.Monotonic()
		if !perf.ReadQueued(s.rings, more, func(r *ring) { s.step(r, to); n++ }) {
			s.noted = began
			emptied = true
			break
		}
		s.busy = true
	}
	return emptied, !emptied && n < batch
}

// step reads one record of a ring.
func (s *Source) step(r *ring, to engine.Sink) {
	rec, ok, bad := r.mapped.Next()
	if bad {
		s.decode++
	}
	if !ok {
		return
	}
	var got record
	switch {
	case rec.Type == perf.RecordSample && r == r.hits:
		var sample perf.Sample
		l := (*layout)(nil)
		if sample.ParseSample(rec.Body) == nil {
			l = s.layoutOf(sample.Raw)
		}
		if l == nil {
			s.decode++
			return
		}
		if l.reported {
			s.lost += r.tally.Saw(int(l.what), sample.Count)
		}
		r.tally.Last = sample.Time
		if !l.decode(&sample, &got) {
			s.decode++
			return
		}
	case rec.Type == perf.RecordComm:
		var c perf.Comm
		if c.ParseComm(rec) != nil {
			s.decode++
			return
		}
		r.tally.Last = c.Time
		r.renames.Saw()
		if c.Exec {
			s.execNames++
		}
		got = record{what: renamed, time: c.Time, cpu: c.CPU, pid: c.PID, tid: c.TID, task: c.TID, byExec: c.Exec, text: c.Name}
	case rec.Type == perf.RecordLost && r == r.hits: // how many the counts say
		r.tally.Suspect()
		s.doubt(r.tally.Last, clock.Monotonic())
		return
	case rec.Type == perf.RecordLost:
		r.renames.Suspect(r.tally.Last)
		s.queue.add(&record{what: lost, time: max(r.tally.Last, s.noted)})
		return
	default:
		return
	}
	s.add(&got, to)
}

// layoutOf returns the layout of a raw sample, nil if there is none.
func (s *Source) layoutOf(raw []byte) *layout {
	if len(raw) < 2 {
		return nil
	}
	if id := int(recordID(raw)); id < len(s.byID) {
		return s.byID[id]
	}
	return nil
}

// add queues a record, with the event that it may become.
func (s *Source) add(r *record, to engine.Sink) {
	if r.what == newTask && r.task == 0 { // an idle task, of a CPU that comes
		return
	}
	e := s.queue.add(r)
	switch r.what {
	case newTask:
		if !r.thread() {
			s.born.Put(r.task, s.born.In[r.task].with(r.time))
		}
		if s.shared.Reports(engine.EventFork) && r.time >= s.opened && (!r.thread() || s.shared.Threads) {
			s.fork(e, to.Reserve())
		}
	case executed:
		switch x := s.execs.In[r.pid]; {
		case x == nil:
			s.execs.Put(r.pid, e)
		case x.time <= r.time:
			x.next = e
			s.execs.Put(r.pid, e)
		default:
			e.next = x
		}
		if s.shared.Reports(engine.EventExec) {
			e.event(to.Reserve(), engine.KindExec, r.pid, r.pid)
			e.ev.Set(engine.FieldExecPath, r.text)
			e.unread = true
		}
	case ended:
		if s.shared.Reports(engine.EventExit) {
			e.event(to.Reserve(), engine.KindExit, r.pid, r.task)
			e.unread = s.showStatus
		}
	case execEnds, execAtEnds:
		if r.errno != 0 {
			e.event(to.Reserve(), engine.KindExecFailed, r.pid, r.tid)
			e.ev.Errno = r.errno
		}
	case renamed:
		if thread := r.tid != r.pid; !r.byExec && s.shared.Reports(engine.EventSetProcTitle) && (!thread || s.shared.Threads) {
			e.event(to.Reserve(), engine.KindComm, r.pid, r.tid)
			e.ev.Thread = thread
			e.ev.Set(engine.FieldComm, r.text)
		}
	}
	if e.unread {
		s.toRead = append(s.toRead, e)
	}
}

// event gives the entry its event.
func (e *entry) event(ev *engine.RawEvent, kind engine.Kind, pid, tid uint32) {
	e.ev = ev
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Time = kind, pid, tid, e.cpu, e.time
}

func (s *Source) fork(e *entry, ev *engine.RawEvent) {
	if e.thread() {
		e.event(ev, engine.KindFork, e.pid, e.task)
		ev.Thread = true
		return
	}
	e.event(ev, engine.KindFork, e.task, e.task)
	ev.Creator = e.pid
	ev.Set(engine.FieldComm, e.text)
	if e.flags&cloneParent == 0 { // else its parent is its maker's
		ev.Task.PPID, ev.Task.ParentTID = e.pid, e.tid
		ev.Task.Known |= engine.FieldPPID.Set() | engine.FieldParentTID.Set()
	}
	e.unread = true
}

// due returns until when the rings have to be read for an entry to be certain.
func (s *Source) due(e *entry) uint64 { return max(e.time+s.hold, e.read+inFlight) }

// settle gives the events to the sink that are certain, or with force all.
func (s *Source) settle(to engine.Sink, force bool) {
	for to.Room() > 0 {
		e := s.queue.oldest()
		if e == nil || !force && s.noted < s.due(e) {
			return
		}
		e = s.queue.take()
		s.conclude(e, to)
		s.queue.release(e)
	}
}

// conclude makes an event of the oldest record.
func (s *Source) conclude(e *entry, to engine.Sink) {
	ev := e.ev
	switch e.what {
	case newTask:
		s.concludeTask(e)
	case executed:
		if s.groups != nil {
			s.groups.executed(e.pid, e.time)
		}
		name, named := s.naming.In[e.pid]
		delete(s.naming.In, e.pid)
		if s.execs.In[e.pid] == e {
			delete(s.execs.In, e.pid)
		}
		if ev != nil {
			s.prove(e, e.pid)
			s.compare(e)
			if named {
				ev.Set(engine.FieldComm, name.text[:name.n])
			}
		}
	case ended:
		s.concludeEnd(e, to)
		return
	case execEnds, execAtEnds:
		if _, late := s.naming.In[e.pid]; late && ev != nil { // it could not go back
			to.Release(ev)
			return
		}
	case renamed:
		if e.byExec {
			name := newName{n: uint8(len(e.text))}
			copy(name.text[:], e.text)
			s.naming.Put(e.pid, name)
		}
	case lost:
		clear(s.naming.In)
		if e.gap.To != 0 {
			ev = to.Reserve()
			ev.SetGap(e.gap)
			to.Insert(ev)
		}
		return
	}
	if ev != nil {
		s.handed++
		to.Insert(ev)
	}
}

func (s *Source) concludeTask(e *entry) {
	pid := e.task
	if e.thread() {
		pid = e.pid
	}
	if s.groups != nil {
		s.groups.born(pid, e.task, e.time)
	}
	if e.thread() {
		return
	}
	delete(s.naming.In, pid)
	if ev := e.ev; ev != nil {
		s.prove(e, pid)
		x := s.execs.In[pid]
		if t := &ev.Task; !t.Known.Has(engine.FieldStart) && s.born.In[pid].last == e.time && x != nil && x.got != 0 && s.certain(x, pid) {
			t.Start, t.StartUnit = x.ev.Task.Start, x.ev.Task.StartUnit
			t.Known |= engine.FieldStart.Set()
		}
	}
	if s.born.In[pid].last <= e.time {
		delete(s.born.In, pid)
	}
}

func (s *Source) concludeEnd(e *entry, to engine.Sink) {
	over := e.dead
	if s.groups != nil {
		over = s.groups.ended(e.pid, e.task)
	}
	if over {
		delete(s.naming.In, e.pid)
	}
	ev := e.ev
	switch {
	case ev == nil:
		return
	case over:
		ev.TID = ev.PID
		s.readStatus(e)
		s.prove(e, e.pid)
	case s.shared.Threads:
		ev.Thread = true
		e.forget() // what was read is of the process
	default:
		to.Release(ev)
		return
	}
	if e.task == e.pid || ev.Thread {
		ev.Set(engine.FieldComm, e.text)
	}
	s.handed += uint64(s.exits.InsertExit(to, ev))
}

// gap queues a gap. It comes before all that is in the queue and happened later.
func (s *Source) gap(g engine.Gap) {
	s.doubt(g.From, g.To).gap = g
}

// doubt notes that records of between two times may be missing.
func (s *Source) doubt(from, to uint64) *entry {
	if s.lossTo < s.noted-min(s.noted, 2*s.hold) {
		s.lossFrom = from
	}
	s.lossFrom, s.lossTo = min(s.lossFrom, from), max(s.lossTo, to)
	s.relearn = s.groups != nil
	return s.queue.add(&record{what: lost, time: max(from, s.noted)})
}

// Close closes the perf events. Queued events are dropped.
func (s *Source) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, c := range s.cpus {
		errs = append(errs, c.close())
	}
	if s.pace != nil {
		s.pace.Close()
	}
	if s.online != nil {
		errs = append(errs, s.online.Close())
	}
	if s.proc != nil {
		errs = append(errs, s.proc.Close())
	}
	s.cpus, s.rings, s.queue, s.toRead = nil, nil, queue{}, nil
	return errors.Join(errs...)
}
