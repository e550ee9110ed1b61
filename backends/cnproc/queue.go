package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/freelist"
)

// queue holds events until the socket is empty. It reads the process of each fork and exec once
// from /proc. Such a value is from the time of the reading, so it is marked as cached unless it
// never changes. A value is used only if the event's process had it at some time. The rules are:
//
//   - All values are read through one descriptor, so they belong to one process. It started no
//
// later than the event.
//   - The executable, command line and comm of a fork are used only while the process has not
//
// executed, which a flag in /proc shows. They are not used during an exec, see
// [procfs.Reader.Read].
//   - The cgroup of a fork is not used if it is the root and the child may not have run.
//   - The session of a fork is not used if the process leads it.
//   - A message sent before the reading removes the fields that it changes. The birth of another
//
// process with the pid removes all.
//   - A loss removes the values of earlier events, and so does a full sink.
type queue struct {
	proc    reader // nil disables reading
	clock   *bootClock
	passes  func(status int32) bool
	entries []entry
	unread  int // position of the first entry that is still to be read
	// position of the latest event of the process that is read or to be read
	byPID freelist.Map[uint32, int]

	// inits are the first processes of pid namespaces except the initial one. reboot(2) sets
	// the status of such a process, and its message has another status.
	inits map[uint32]bool
}

// reader reads processes for the queue: a [procfs.Reader].
type reader interface {
	Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error)
	ExitStatus(pid uint32) (status int32, start uint64, ok bool)
}

// entry is an event in the queue.
type entry struct {
	ev     *engine.RawEvent
	want   engine.Fields // to be read
	read   engine.Fields // have been read
	cached engine.Fields // the earlier value is cached, unless another one is read
	time   uint64        // of the read, 0 before it
	older  int           // position of the event of the process before it in byPID, -1 for none
	silent bool          // it is not delivered
}

const (
	ofUser    = engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldSUID | 1<<engine.FieldCaps)
	ofGroup   = engine.Fields(1<<engine.FieldGIDs | 1<<engine.FieldSGID)
	ofSession = engine.Fields(1<<engine.FieldSID | 1<<engine.FieldPGID | 1<<engine.FieldTTY)

	// zombieFields are the fields that /proc still shows of a zombie.
	zombieFields = engine.FieldsIDs | engine.Fields(1<<engine.FieldStart|1<<engine.FieldPGID|1<<engine.FieldSID|
		1<<engine.FieldCaps|1<<engine.FieldComm|1<<engine.FieldExit|1<<engine.FieldPIDNS|1<<engine.FieldUserNS|
		1<<engine.FieldNoNewPrivs|1<<engine.FieldSeccomp)

	// fixed are the fields that never change.
	fixed = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)
)

// changedBy are the fields that a message changes.
func changedBy(m *message) engine.Fields {
	switch {
	case m.what == Exec && m.threads: // it may have the ids of a thread
		return procfs.Replaced
	case m.what == Exec: // new ids come as UID and GID
		return procfs.Image | 1<<engine.FieldCaps
	case m.what == SID:
		return ofSession
	case m.tid != m.pid:
		return 0
	case m.what == UID:
		return ofUser
	case m.what == GID:
		return ofGroup
	case m.what == Comm:
		return engine.FieldComm.Set()
	case m.what == Fork:
		return engine.AllFields // another process with the same number
	}
	return 0
}

// add adds ev. want are the fields to read for it.
func (q *queue) add(ev *engine.RawEvent, want engine.Fields) *entry {
	status := want & engine.FieldExit.Set()
	if want &^= ev.Task.Known &^ ev.Task.Cached; want != 0 {
		want |= status // it is proof, unlike the status in the message
	}
	if q.proc == nil {
		want = 0
	}
	h := entry{ev: ev, want: want, cached: ev.Task.Cached, older: -1}
	if want != 0 || ev.Kind == engine.KindExit && !ev.Thread {
		if pos, ok := q.byPID.In[ev.PID]; ok {
			h.older = pos
			if older := &q.entries[pos]; ev.Kind == engine.KindExec && older.time == 0 {
				older.want = 0 // one reading is enough
			}
		}
		q.byPID.Put(ev.PID, len(q.entries))
	}
	q.entries = append(q.entries, h)
	return &q.entries[len(q.entries)-1]
}

// clear removes the fields that m changes from the values of its process.
func (q *queue) clear(m *message) {
	pos, ok := q.byPID.In[m.pid]
	if !ok {
		return
	}
	lost := changedBy(m)
	born := m.what == Fork && lost != 0
	for ; pos >= 0; pos = q.entries[pos].older {
		h := &q.entries[pos]
		if ev := h.ev; born && ev.Kind == engine.KindExit && !ev.Thread && !ev.Task.Known.Has(engine.FieldPPID) && ev.Time >= m.time {
			ev.Time, ev.Task.Exit.Time = m.time-1, m.time-1 // before the pid's reuse
		}
		switch {
		case h.time == 0:
			h.want &^= lost
		case born && q.clock.StartedBefore(h.ev.Task.Start, m.time):
			// The values belong to the previous process with the pid.
		case m.time <= h.time || born:
			h.drop(lost)
		}
	}
}

// drop removes fields from /proc.
func (h *entry) drop(lost engine.Fields) {
	t := &h.ev.Task
	lost &= h.read
	h.read &^= lost
	t.Known &^= lost
	t.Cached = t.Cached&^lost | h.cached&lost
	t.Truncated &^= lost
}

// distrust discards what entries n and later have from /proc. It counts the events without fields.
func (q *queue) distrust(n int) (unread uint64) {
	for i := range q.entries[n:] {
		h := &q.entries[n+i]
		if h.want != 0 {
			unread++
		}
		h.want = 0
		h.drop(h.read)
	}
	q.unread = len(q.entries)
	return unread
}

// readAll reads the fields that the queued events want.
func (q *queue) readAll() {
	if q.unread < len(q.entries) {
		q.clock.Update()
	}
	for ; q.unread < len(q.entries); q.unread++ {
		h := &q.entries[q.unread]
		if h.want.Has(engine.FieldExit) {
			q.readExit(h)
		}
		if h.want&procfs.Readable != 0 {
			q.readProcess(h)
		}
		if h.want != 0 {
			h.time = q.clock.now()
		}
	}
}

// readExit reads the status of an ended process that was not waited for.
func (q *queue) readExit(h *entry) {
	t := &h.ev.Task
	status, start, ok := q.proc.ExitStatus(h.ev.PID)
	if ok && q.mayBe(h, start) {
		t.Exit = engine.Exit{WaitStatus: status, Time: h.ev.Time}
		t.Known |= engine.FieldExit.Set()
		h.read |= engine.FieldExit.Set()
	}
}

func (q *queue) readProcess(h *entry) {
	ev, t := h.ev, &h.ev.Task
	known, truncated, reported := t.Known, t.Truncated, t.Cred
	st, err := q.proc.Read(ev.PID, h.want&^engine.FieldExit.Set()|engine.FieldStart.Set(), ev)
	if err != nil || !q.mayBe(h, t.Start) {
		// The process is gone or the pid is reused.
		t.Known, t.Truncated = known, truncated
		return
	}
	// The ids in the message are those at the event.
	if known.Has(engine.FieldUIDs) {
		t.Cred.UID, t.Cred.EUID = reported.UID, reported.EUID
	}
	if known.Has(engine.FieldGIDs) {
		t.Cred.GID, t.Cred.EGID = reported.GID, reported.EGID
	}
	if ev.Kind == engine.KindFork {
		t.Known &^= h.want & changedSinceBirth(ev, &st)
	}
	h.read |= t.Known &^ known
	t.Cached |= h.read &^ (fixed | engine.FieldExit.Set())
	q.learnInit(ev)
}

// learnInit records whether a process is the first of a pid namespace.
func (q *queue) learnInit(ev *engine.RawEvent) {
	if ev.Task.Known.Has(engine.FieldPIDNS) && ev.Task.NSPID == 1 && ev.PID != 1 {
		q.inits[ev.PID] = true
	}
}

// changedSinceBirth returns the fields that a child has changed since its birth. At its birth it
// has the inherited values.
func changedSinceBirth(ev *engine.RawEvent, st *procfs.Status) (later engine.Fields) {
	if !st.ForkNoExec && !st.Kthread {
		// The child executes or has executed: its EXEC follows.
		later |= procfs.Replaced
	}
	if ev.Task.SID == ev.PID {
		// A child does not start as a session leader. It has called setsid(2), and its
		// message follows.
		later |= ofSession
	}
	if !st.Ran && string(ev.Bytes(engine.FieldCgroup)) == "/" {
		// The kernel sends the message of a fork before it puts the child into its cgroup.
		later |= engine.FieldCgroup.Set()
	}
	return later
}

// mayBe reports whether a process with this start time can be the event's process. When the message
// of an end arrives, the pid may belong to another process, and a loss can hide that.
func (q *queue) mayBe(h *entry, start uint64) bool {
	if h.ev.Kind == engine.KindExit && h.want.Has(engine.FieldStart) {
		return q.clock.StartedBefore(start, h.ev.Time)
	}
	return q.clock.StartedBy(start, h.ev.Time)
}

// release inserts the events into the sink. It returns their number without gaps.
func (q *queue) release(to engine.Sink) (inserted uint64) {
	for i := range q.entries {
		h := &q.entries[i]
		ev, t := h.ev, &h.ev.Task
		if ev.Kind == engine.KindExit && !ev.Thread && q.inits[ev.PID] {
			// Only the status from /proc counts.
			delete(q.inits, ev.PID)
			t.Known &^= engine.FieldExit.Set() &^ h.read
		}
		// The status may have been unknown when the event was queued.
		if h.silent || ev.Kind == engine.KindExit && t.Known.Has(engine.FieldExit) && !q.passes(t.Exit.WaitStatus) {
			to.Release(ev)
			continue
		}
		ev.Read = h.time
		to.Insert(ev)
		if ev.Kind != engine.KindGap {
			inserted++
		}
	}
	clear(q.entries)
	clear(q.byPID.In)
	q.entries, q.unread = q.entries[:0], 0
	return inserted
}

// trim releases memory that was unused since the last call.
func (q *queue) trim() {
	q.entries = freelist.Shrink(q.entries)
	q.byPID.Trim()
}
