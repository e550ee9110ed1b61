package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/freelist"
)

// enricher queues events in the order of their facts. It reads the process of a fork and of an exec
// once from /proc, and releases an event when it and all earlier ones are certain.
//
// A value in /proc is as of the reading, so it is marked cached unless it never changes. An event
// gets it only if it can be a value of the event's process at another time. The rules are:
//
//   - All values are read through one descriptor, so they belong to one process, which started no
//     later than the event.
//   - A fork's executable, command line and comm are used only while the process has not executed
//     another image, which the kernel shows as a flag. They are not used while an exec is half way,
//     see [procfs.Reader.Read].
//   - A fork's cgroup is not the root while the child may not have run yet.
//   - A fork's session is not one that the process leads itself.
//   - A message sent before the reading removes the fields that it changes, and the birth of
//     another process with the pid removes all: /proc shows a change, or a birth, some instructions
//     before its message is made, and a busy machine can suspend a process right there. The event
//     waits for such messages during the doubt time.
//   - A loss removes all readings of earlier events.
//   - So does a sink that takes an event before the doubt time is over, for lack of room or at the
//     end.
type enricher struct {
	proc  reader // nil disables reading
	clock *bootClock
	doubt uint64 // ns that an event is held after the reading
	delay uint64 // ns that a fork waits for its exec before it is read, 0 for not at all

	queue     []entry // a ring; its length is a power of two, see trim
	most      int     // the largest number of events in it since the last trim
	head, end uint64  // positions in the queue, counted from the first event ever
	unread    uint64  // all before this position are read, or not to be read
	// position of a process's latest event that was, or is to be, read
	byPID freelist.Map[uint32, uint64]
	loss  *loss
	reads uint64 // processes read

	// inits are the first processes of pid namespaces, except the initial one: reboot(2) sets
	// the status of such a process, and the message has a different status.
	inits  map[uint32]bool
	births bool // the kernel reports each fork
	passes func(status int32) bool
}

// reader reads processes for the enricher: a [procfs.Reader].
type reader interface {
	Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error)
	ExitStatus(pid uint32) (status int32, start uint64, ok bool)
}

// entry is an event in the queue.
type entry struct {
	ev   *engine.RawEvent
	want engine.Fields // to be read
	read engine.Fields // were read
	old  engine.Fields // if not read, an earlier value is cached
	time uint64        // of the reading, 0 while there is none
	// 1 + position of the event of the process before it in byPID, 0 for none
	older  uint64
	wait   bool // until delay is over: an exec may make the reading needless
	unsure bool // an end: its status is unknown if another end of the pid follows
	shown  bool // an end that /proc showed: void if the process executes later
	void   bool
	// an end of an older process of the pid, or of the latest if another is born before this
	seen uint64
}

func newEnricher(p reader, c *bootClock, l *loss, doubt uint64) *enricher {
	return &enricher{
		proc: p, clock: c, loss: l, doubt: doubt, queue: make([]entry, minQueue), inits: make(map[uint32]bool),
		births: true, passes: new(source.Options).Passes,
	}
}

func (e *enricher) at(pos uint64) *entry { return &e.queue[pos&uint64(len(e.queue)-1)] }

// len returns how many events are queued.
func (e *enricher) len() int { return int(e.end - e.head) }

// changedBy are the fields that a message of the kind makes stale.
func changedBy(m *message) engine.Fields {
	switch m.what {
	case Exec:
		if m.threads { // it may have the ids of a thread
			return ofExec | engine.FieldsIDs
		}
		return ofExec
	case UID:
		if m.tid == m.pid {
			return ofUser
		}
	case GID:
		if m.tid == m.pid {
			return ofGroup
		}
	case SID:
		return ofSession
	case Comm:
		if m.tid == m.pid {
			return engine.FieldComm.Set()
		}
	case Fork:
		if m.tid == m.pid {
			return engine.AllFields // another process with the same number
		}
	}
	return 0
}

const (
	// ofExec are the fields that an exec changes: it computes new capabilities, too.
	// New ids come as UID and GID.
	ofExec = procfs.Image | 1<<engine.FieldCaps

	// ofUser are the fields that a change of user ids is about.
	ofUser = engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldSUID | 1<<engine.FieldCaps)

	// ofGroup are the fields that a change of group ids is about.
	ofGroup = engine.Fields(1<<engine.FieldGIDs | 1<<engine.FieldSGID)

	// ofSession are the fields that setsid(2) changes.
	ofSession = engine.Fields(1<<engine.FieldSID | 1<<engine.FieldPGID | 1<<engine.FieldTTY)

	// ofZombie are the fields that /proc shows of a process that has ended.
	ofZombie = engine.FieldsIDs | engine.Fields(1<<engine.FieldStart|1<<engine.FieldPGID|1<<engine.FieldSID|
		1<<engine.FieldCaps|1<<engine.FieldComm|1<<engine.FieldExit|1<<engine.FieldPIDNS|1<<engine.FieldUserNS)

	// ofEnd are the fields of an end that are wrong if its message belongs to another process.
	ofEnd = engine.FieldsUsage | engine.Fields(1<<engine.FieldExit|1<<engine.FieldParentSignal|1<<engine.FieldPPID)

	// fixed are the fields that never change.
	fixed = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)
)

// note drops the fields that m changes from the readings, done or due, of its process: for the
// events since the latest fork or exec, and for earlier events that were read after it.
func (e *enricher) note(m *message) {
	if len(e.byPID.In) == 0 {
		return
	}
	pos, ok := e.byPID.In[m.pid]
	if !ok {
		return
	}
	lost := changedBy(m)
	if !e.births && (m.what == Exec || m.what == Exit && m.tid == m.pid) {
		lost = engine.AllFields // it may be of another process with the same number
	}
	executed := uint64(0)
	for next := pos + 1; next > e.head; {
		h := e.at(next - 1)
		if h.time != 0 && h.time < executed {
			return
		}
		if m.what == Exit {
			h.wait = false
		}
		e.noteOne(h, m, lost)
		switch h.ev.Kind {
		case engine.KindFork:
			return
		case engine.KindExec:
			executed = max(executed, h.ev.Time)
		}
		next = h.older
	}
}

func (e *enricher) noteOne(h *entry, m *message, lost engine.Fields) {
	exit, leader := h.ev.Kind == engine.KindExit, m.tid == m.pid
	switch {
	case !exit:
	case m.what == Exec && h.shown && m.time >= h.ev.Time:
		h.void = true // /proc showed no process while a thread took the leader's place
	case m.what == Fork && leader && (h.seen == 0 || m.time <= h.seen):
		if h.seen != 0 || h.ev.Time >= m.time { // it ended before the pid was given again
			h.ev.Time, h.ev.Task.Exit.Time, h.seen = m.time-1, m.time-1, 0
		}
	case m.what == Exit && leader && h.unsure:
		h.ev.Task.Known &^= ofEnd
		h.read, h.unsure = h.read&h.ev.Task.Known, false
	}
	switch {
	case lost == 0:
	case h.time == 0:
		h.want &^= lost
		if m.what == Exec {
			h.want, h.wait = 0, false // the exec's own reading follows, one is enough
		}
	case m.what == Fork && e.clock.StartedBefore(h.ev.Task.Start, m.time):
		// It was read of the process that had the number before.
	case m.time <= h.time || m.what == Fork || !e.births:
		h.drop(lost)
	}
}

// drop removes fields that were read.
func (h *entry) drop(lost engine.Fields) {
	t := &h.ev.Task
	lost &= h.read
	h.read &^= lost
	t.Known &^= lost
	t.Cached &^= lost
	t.Truncated &^= lost
}

// distrust discards the readings, done or due, of events up to the end of a gap: messages before it
// are missing.
func (e *enricher) distrust(g *engine.Gap) {
	for pos := e.head; pos < e.end; pos++ {
		h := e.at(pos)
		h.want, h.wait = 0, false
		h.drop(h.read)
		if h.unsure {
			h.ev.Task.Known &^= ofEnd
		}
		if h.seen != 0 { // it is unknown now which process has ended
			pid, gap := h.ev.PID, engine.Gap{Cause: engine.LossSocketFull, CPU: h.ev.CPU, From: h.ev.Time, To: h.seen, Count: 1}
			h.ev.Reset()
			h.ev.SetGap(gap)
			h.ev.PID, h.seen = pid, 0 // the pid until it is released
			e.loss.void++
		}
	}
	e.loss.gapTo = max(e.loss.gapTo, g.To)
}

// add queues ev. Fields of want are to be read for it.
func (e *enricher) add(ev *engine.RawEvent, want engine.Fields) {
	status := want & engine.FieldExit.Set()
	if want &^= ev.Task.Known &^ ev.Task.Cached; want != 0 {
		want |= status // it is proof, where the message's is not
	}
	if e.proc == nil || ev.Time <= e.loss.gapTo {
		want = 0
	}
	if e.len() == len(e.queue) {
		e.resize(2 * len(e.queue))
	}
	e.most = max(e.most, e.len()+1)
	h := e.at(e.end)
	*h = entry{ev: ev, want: want, old: ev.Task.Cached &^ ev.Task.Known}
	ev.Task.Cached &= ev.Task.Known
	if want != 0 {
		h.wait = e.delay > 0 && ev.Kind == engine.KindFork
		e.enter(h)
	}
	e.end++
}

// enter makes h, at the end of the queue, the latest event of its process for messages to come.
func (e *enricher) enter(h *entry) {
	if pos, ok := e.byPID.In[h.ev.PID]; ok {
		h.older = pos + 1
	}
	e.byPID.Put(h.ev.PID, e.end)
}

// addEnd adds the end of a process that waits for what follows it, see [fact.held].
func (e *enricher) addEnd(ev *engine.RawEvent, want engine.Fields, f *fact) {
	e.add(ev, want)
	e.end--
	h := e.at(e.end)
	h.unsure, h.shown, h.seen = f.unsure, f.unseen || f.unsure, f.seen
	if h.want == 0 {
		e.enter(h)
		h.time = e.clock.now()
	}
	e.end++
}

// resize gives the queue another length, in which its events have room.
func (e *enricher) resize(n int) {
	other := make([]entry, n)
	for pos := e.head; pos < e.end; pos++ {
		other[pos&uint64(n-1)] = *e.at(pos)
	}
	e.queue = other
}

// minQueue is the length of the smallest queue.
const minQueue = 64

// trim makes the queue smaller if a fourth of it has been enough since the last trim: else a burst
// would cost its memory for good.
func (e *enricher) trim() {
	n := len(e.queue)
	for n > minQueue && 4*e.most <= n {
		n /= 2
	}
	if n < len(e.queue) {
		e.resize(n)
	}
	e.most = e.len()
	e.byPID.Trim()
}

// readAll reads what the queued events want, except for forks that can wait.
func (e *enricher) readAll() {
	if e.unread == e.end {
		return
	}
	now := uint64(0)
	waiting := false
	for pos := max(e.unread, e.head); pos < e.end; pos++ {
		h := e.at(pos)
		if h.want == 0 || h.time != 0 {
			continue
		}
		if now == 0 {
			e.clock.Update()
			now = e.clock.now()
		}
		if h.wait = h.wait && now < h.ev.Time+e.delay; h.wait {
			if !waiting {
				waiting, e.unread = true, pos
			}
			continue
		}
		e.read(h)
	}
	if !waiting {
		e.unread = e.end
	}
}

// read reads the process of an event.
func (e *enricher) read(h *entry) {
	e.reads++
	if h.want.Has(engine.FieldExit) {
		e.readExit(h)
	}
	if h.want&procfs.Readable != 0 {
		e.readProcess(h)
	}
	h.time = e.clock.now()
}

// readExit asks the process, if its parent has not yet, how it ended.
func (e *enricher) readExit(h *entry) {
	t := &h.ev.Task
	status, start, ok := e.proc.ExitStatus(h.ev.PID)
	if ok && e.mayBe(h, start) {
		t.Exit = engine.Exit{WaitStatus: status, Time: h.ev.Time}
		t.Known |= engine.FieldExit.Set()
		t.Cached &^= engine.FieldExit.Set()
		h.read |= engine.FieldExit.Set()
	}
}

func (e *enricher) readProcess(h *entry) {
	ev, t := h.ev, &h.ev.Task
	known, truncated, told := t.Known, t.Truncated, t.Cred
	st, err := e.proc.Read(ev.PID, h.want&^engine.FieldExit.Set()|engine.FieldStart.Set(), ev)
	if err != nil || !e.mayBe(h, t.Start) || !e.births && !e.proven(h, &st) {
		// Gone, or another process with the same number.
		t.Known, t.Truncated = known, truncated
		return
	}
	// The ids in the message are the event's.
	if known.Has(engine.FieldUIDs) {
		t.Cred.UID, t.Cred.EUID = told.UID, told.EUID
	}
	if known.Has(engine.FieldGIDs) {
		t.Cred.GID, t.Cred.EGID = told.GID, told.EGID
	}
	if ev.Kind == engine.KindFork {
		t.Known &^= h.want & notOfBirth(ev, &st)
	}
	h.read |= t.Known &^ known
	t.Cached |= h.read &^ fixed
	e.learnInit(ev)
}

// learnInit records whether a process that was read is the first one of a pid namespace.
func (e *enricher) learnInit(ev *engine.RawEvent) {
	if ev.Task.Known.Has(engine.FieldPIDNS) && ev.Task.NSPID == 1 && ev.PID != 1 {
		e.inits[ev.PID] = true
	}
}

// endInit drops the message's status of such a process: only the status in /proc counts.
func (e *enricher) endInit(h *entry) {
	if ev := h.ev; ev.Kind == engine.KindExit && !ev.Thread && e.inits[ev.PID] {
		delete(e.inits, ev.PID)
		ev.Task.Known &^= engine.FieldExit.Set() &^ h.read
	}
}

// notOfBirth returns the fields that a child has changed between its birth and the reading. At its
// birth it has the values that it inherits.
func notOfBirth(ev *engine.RawEvent, st *procfs.Status) (later engine.Fields) {
	if !st.ForkNoExec && !st.Kthread {
		// It is executing, or has executed; the event of that follows.
		later |= procfs.Replaced
	}
	if ev.Task.SID == ev.PID {
		// No child is born as the leader of a session: it is about to send the message of
		// its setsid(2), or has.
		later |= ofSession
	}
	if !st.Ran && string(ev.Bytes(engine.FieldCgroup)) == "/" {
		// The kernel sends the message, puts the child into its cgroup and lets it run, in
		// that order.
		later |= engine.FieldCgroup.Set()
	}
	return later
}

// mayBe reports whether a process that started at a time can be the event's. When the message of an
// end comes, the pid may belong to another process already, and a loss can hide that.
func (e *enricher) mayBe(h *entry, start uint64) bool {
	if e.births && h.ev.Kind == engine.KindExit && h.want.Has(engine.FieldStart) {
		return e.clock.StartedBefore(start, h.ev.Time)
	}
	return e.clock.StartedBy(start, h.ev.Time)
}

// proven reports whether the process that was read is the event's, if the kernel does not report
// forks: the process is older than the event, or has executed as the event says. Another process
// that does the same sends a message of its own.
func (e *enricher) proven(h *entry, st *procfs.Status) bool {
	return e.clock.StartedBefore(h.ev.Task.Start, h.ev.Time) || h.ev.Kind == engine.KindExec && !st.ForkNoExec
}

// release inserts the certain events into the sink: every message sent before the time noted has
// been handled. With force set it inserts all events, the uncertain ones without their readings. It
// returns how many events it inserted, without gaps, and how many of them lack fields that were to
// be read.
func (e *enricher) release(to engine.Sink, noted uint64, force bool) (n, unread uint64) {
	for ; e.head < e.end; e.head++ {
		h := e.at(e.head)
		if !force && (h.wait || h.want != 0 && h.time == 0 || h.time != 0 && noted < h.time+e.doubt) {
			break
		}
		if h.want != 0 && (h.time == 0 || noted < h.time+e.doubt) {
			unread++
		}
		if noted < h.time+e.doubt {
			h.drop(h.read)
		}
		if pos, ok := e.byPID.In[h.ev.PID]; ok && pos == e.head {
			delete(e.byPID.In, h.ev.PID)
		}
		e.endInit(h)
		ev := h.ev
		h.ev = nil
		ev.Read = h.time
		ev.Task.Cached |= h.old &^ ev.Task.Known
		switch t := &ev.Task; {
		case h.void, ev.Kind == engine.KindExit && t.Known.Has(engine.FieldExit) && !e.passes(t.Exit.WaitStatus):
			to.Release(ev) // its status was not known before
			continue
		case ev.Kind == engine.KindGap: // which is about events and is none
			ev.PID = 0
		default:
			n++
		}
		to.Insert(ev)
	}
	return n, unread
}

// due returns when the first of the queued events has to be read or released, 0 for never.
func (e *enricher) due() uint64 {
	if e.head == e.end {
		return 0
	}
	h := e.at(e.head)
	if h.time == 0 {
		return h.ev.Time + e.delay
	}
	return h.time + e.doubt
}

// hurry ends the waiting of all forks.
func (e *enricher) hurry() {
	for pos := e.head; pos < e.end; pos++ {
		e.at(pos).wait = false
	}
}
