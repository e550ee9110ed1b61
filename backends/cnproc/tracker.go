package cnproc

import (
	"cmp"
	"math"
	"slices"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/freelist"
)

// fact is what the tracker concludes from a message, or from the lack of one.
type fact struct {
	kind   engine.Kind
	thread bool     // of one thread, not of its process
	m      *message // valid until the call returns; nil for a gap
	seq    uint64   // number of the message among those of its CPU

	status   int32  // KindExit: the wait status
	known    bool   // status is certain
	doubtful bool   // a loss may have hidden that the pid is another process's now
	unsure   bool   // KindExit: it is not if an exec or another end follows
	lost     span   // unsure: what is lost if another end follows
	seen     uint64 // KindExit: known unless another process of the number is born before
	gone     bool   // the number is another process's by now
	gap      engine.Gap
}

// tracker takes the messages in the order in which they come and states facts. It knows of
// each process what decides when and how it ended; it looks at /proc only for the threads
// that there are: at the start, after a loss, and to learn whether a group still runs.
type tracker struct {
	state func(*fact)
	view  view // nil without /proc
	clock *bootClock
	// lives is set if all forks and exits come.
	lives bool
	// spreads is set if a core dump sets the wait status of all that share the memory, also
	// of one that ends with another: before Linux 5.16.
	spreads bool
	dumped  uint64 // the latest end of a process whose core may have been dumped

	loss    *loss
	groups  groups
	living  living
	dumping freelist.Map[uint32, dump] // processes whose core may be dumped
	probes  []probe
	doubts  []doubt
	current fact // of the message that is handled, which a variable would allocate
}

// doubt is that the end of a process may be lost: see doubtEnd.
type doubt struct {
	m   message
	now uint64 // when nothing was left of the process
}

// maxStraggle is how long after a process ended the messages of its threads come, in ns.
const maxStraggle = 1_000_000_000

// doubtWait is how long an end that may be lost is waited for, in ns.
const doubtWait = maxStraggle / 2

// dump is the message that a core may be dumped: the thread, and when it was sent.
type dump struct {
	tid  uint32
	time uint64
}

// view is what the tracker looks at in /proc: a [procfs.Reader].
type view interface {
	PIDs() ([]uint32, error)
	Tasks(pid uint32) []uint32
	Threads(pid uint32) uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

func newTracker(v view, c *bootClock, l *loss, last6 bool, state func(*fact)) *tracker {
	t := &tracker{state: state, view: v, clock: c, loss: l, lives: true, groups: groups{last6: last6}}
	t.living.runs, t.living.tell = t.leaderRuns, t.tellLate
	if v == nil {
		l.lose(1) // of the processes that there are nothing is known
	}
	return t
}

// trim lets go of memory that was not needed since the last call.
func (t *tracker) trim() {
	t.groups.trim()
	t.living.numbers.Trim()
	t.dumping.Trim()
	t.probes, t.doubts = freelist.Shrink(t.probes), freelist.Shrink(t.doubts)
}

// take handles one message.
func (t *tracker) take(m *message) {
	seq, missing, g := t.loss.saw(m)
	if missing {
		t.lose(g, false)
	}
	if m.what == whatAck {
		return
	}
	if t.loss.rescan && t.loss.lookDue(t.clock.now()) {
		t.learn()
	}
	f := &t.current
	*f = fact{m: m, seq: seq, thread: m.tid != m.pid, doubtful: t.doubtful(m.pid)}
	m.threads = m.threads || t.threads(m)
	switch m.what {
	case Fork:
		f.kind, f.doubtful = engine.KindFork, f.doubtful && f.thread
		t.fork(m)
	case Exec:
		f.kind, f.thread = engine.KindExec, false
		t.groups.exec(m.pid, m.time)
		if t.lives && t.loss.sees(m) {
			t.living.executed(m.pid)
		}
		delete(t.dumping.In, m.pid)
	case Exit:
		f.kind = engine.KindExit
		t.exit(f)
		return
	case CoreDump:
		// Sent when a signal of that action arrives, whether or not a core is dumped:
		// the exit status tells.
		t.dumping.Put(m.pid, dump{m.tid, m.time})
		return
	case Comm:
		f.kind = engine.KindSetProcTitle
	case Ptrace:
		f.kind = engine.KindPtrace
	case SID:
		f.kind, f.thread = engine.KindIDChange, false
	default:
		f.kind = engine.KindIDChange
	}
	t.state(f)
}

// lose gives up what a message that is missing can have changed, and states the gap unless gaps
// have told of all that is missing. early is set if the gap was stated already.
func (t *tracker) lose(g engine.Gap, early bool) {
	from := g.From
	t.tellDoubts(math.MaxUint64) // what would dispel them may be what is missing
	if mixed := t.living.forget(t.clock.now()); mixed != 0 {
		g.From = min(g.From, mixed)
	}
	t.loss.lose(g.To)
	// Nothing tells any more whether there were cores.
	cores := uint64(len(t.dumping.In))
	for _, d := range t.dumping.In {
		g.From, g.CPU = min(g.From, d.time), engine.AllCPUs
	}
	clear(t.dumping.In)
	g.Count += cores
	t.loss.void += cores
	if !early && (g.CPU == engine.AllCPUs || g.Count > 0) || g.From < from || cores > 0 {
		t.state(&fact{kind: engine.KindGap, gap: g})
	}
}

// tellLate states the end of a process whose number was given again, and whose message will not be
// known.
func (t *tracker) tellLate(pid uint32, next uint64) {
	t.endLate(&message{tid: pid, pid: pid}, next, false, 0)
}

// endLate states the end of a process whose number was given again at a time. known is set if the
// message is its own, unless another is born before what seen says.
func (t *tracker) endLate(m *message, next uint64, known bool, seen uint64) {
	m.what, m.time = Exit, min(m.time, next-1)
	if !known {
		m.time, m.ppid, m.exitSignal = next-1, 0, -1
	}
	t.state(&fact{kind: engine.KindExit, m: m, status: int32(m.status), known: known, gone: true, seen: seen})
}

// loseEnd states that the end of a process is lost: nothing tells which one it is of.
func (t *tracker) loseEnd(m *message, lost span) {
	n := uint64(1)
	if d, ok := t.dumping.In[m.pid]; ok {
		lost.add(d.time)
		delete(t.dumping.In, m.pid)
		n++ // the core
	}
	t.loss.void += n
	t.state(&fact{kind: engine.KindGap, m: m,
		gap: engine.Gap{Cause: engine.LossSocketFull, CPU: m.cpu, From: lost.from, To: lost.to, Count: n}})
}

// doubtful reports whether the number can be another process's than before a loss.
func (t *tracker) doubtful(pid uint32) bool { return t.loss.until > 0 && !t.living.has(pid) }

// threads reports whether the process of a message may have, or have had, other threads.
func (t *tracker) threads(m *message) bool {
	_, ok := t.groups.byPID.In[m.pid]
	return ok || t.loss.unseen(m.time) && !t.living.has(m.pid)
}

func (t *tracker) fork(m *message) {
	if m.tid != m.pid {
		t.groups.add(m.pid, m.tid)
		return
	}
	t.tellDoubt(m.pid)
	if e, ok := t.groups.byPID.In[m.pid]; ok && e.over == 0 && m.time <= t.loss.looked {
		// The look has shown it with threads already.
	} else if e := t.groups.overtake(m.pid, m.time); e.live > 0 && !e.unseen && !t.loss.rescan {
		status, _ := e.endings.Verdict(e.leader, t.groups.last6)
		end := message{cpu: m.cpu, time: m.time - 1, tid: m.pid, pid: m.pid, status: uint32(status), exitSignal: -1}
		t.endLate(&end, m.time, e.endings.Fatal != 0, 0)
		t.living.ended(m.pid, m.time, t.strays(m.time), false)
	}
	if t.lives && t.loss.sees(m) {
		t.living.born(m.pid, m.time, t.strays(m.time))
	}
}

// strays reports whether an end that was stamped at a time can be of a process that no message has
// told of, and whose number another has by now.
func (t *tracker) strays(time uint64) bool { return t.view != nil && t.loss.strays(time) }

// leaderRuns reports whether the leader of a process is seen to run, and when.
func (t *tracker) leaderRuns(pid uint32) (now uint64, ok bool) {
	if t.view == nil {
		return 0, false
	}
	st, _, err := t.view.Status(pid)
	return t.clock.now(), err == nil && !st.Zombie()
}

// exit states the end of a thread, and that of its process if it was the last.
func (t *tracker) exit(f *fact) {
	m := f.m
	strays, v := t.strays(m.time), verdict{known: true}
	if o, ok := t.groups.overtaken.In[m.tid]; ok && o.of(m) {
		delete(t.groups.overtaken.In, m.tid)
		m.time = min(m.time, o.next-1)
		f.thread, f.status, f.known = true, int32(m.status), true
		t.state(f)
		return
	}
	if m.tid == m.pid && !m.former {
		v = t.living.whose(m, strays, f.doubtful)
		switch v.owner {
		case ofLate:
			t.endLate(m, v.next, v.known, v.seen)
			return
		case ofOlder:
			t.loseEnd(m, v.lost.with(t.clock.now())) // threads can have ended since
			return
		case ofTold:
			return
		}
	}
	if !v.known {
		m.time = max(m.time, v.lost.to) // one of those messages is its own
	}
	e := t.groups.exit(m)
	if e.probe {
		t.probes = append(t.probes, probe{pid: m.pid})
	}
	// It may have had threads that nobody told of, or that ended before the look.
	unseen := !t.living.has(m.pid) && (t.loss.unseen(m.time) || e.gone && (strays || t.living.seen.has(m.pid)))
	if e.confirm || e.group && (unseen || v.unsure) {
		e = t.confirm(m, e)
		e.known = e.known && (!unseen || groupstatus.Certain(e.status))
		if e.group && e.alone && unseen && !e.known && f.doubtful && t.view != nil {
			t.loseDoubted(m) // it may have had threads that ended later
			t.living.ended(m.pid, m.time, strays, true)
			return
		}
	}
	if e.lost {
		t.loseEnd(m, span{m.time, m.time})
		return
	}
	if m.tid != m.pid || !e.group {
		f.thread, f.status, f.known = true, int32(m.status), true
		t.state(f)
	}
	if !e.group {
		if unseen {
			t.doubtEnd(m)
		}
		return
	}
	m.time = e.time
	if f.lost, f.seen = v.lost.with(m.time), v.seen; e.unsure {
		f.lost.add(t.clock.now())
	}
	t.dispel(m.pid)
	t.living.ended(m.pid, m.time, strays, e.unsure)
	d, announced := t.dumping.In[m.pid]
	quiet := !announced && t.dumpsQuietly(e.status)
	e.known = e.known && v.known && !t.dumpSets(m, e.status) && !(quiet && e.status == groupstatus.KilledThread)
	f.doubtful = f.doubtful || !v.known
	f.thread, f.status, f.known, f.unsure = false, e.status, e.known, e.unsure
	if announced || quiet {
		delete(t.dumping.In, m.pid)
		t.dumped = max(t.dumped, m.time)
		if core := (engine.Exit{WaitStatus: e.status}); e.known && core.CoreDumped() {
			dump := *m
			if dump.tid = d.tid; quiet {
				dump.tid = cmp.Or(e.dumper, m.tid)
			}
			t.state(&fact{kind: engine.KindCoreDump, m: &dump, seq: f.seq, doubtful: f.doubtful})
		}
	}
	t.state(f)
}

// dumpsQuietly reports whether a process that ended with a status may have dumped core without a
// message, as seccomp makes it do before Linux 5.16.
func (t *tracker) dumpsQuietly(status int32) bool {
	return t.spreads && status&^groupstatus.CoreDumped == groupstatus.KilledThread
}

// dumpSets reports whether the core dump of another process may have set the wait status that the
// parent gets.
func (t *tracker) dumpSets(m *message, status int32) bool {
	if !t.spreads || groupstatus.Certain(status) {
		return false
	}
	others := len(t.dumping.In)
	if _, own := t.dumping.In[m.pid]; own {
		others--
	}
	since := max(t.dumped, t.loss.until)
	return others > 0 || since != 0 && m.time <= since+maxStraggle
}

// doubtEnd notes, once, that the end of a process may be lost, as nothing of it is left though m
// was taken for the end of one thread: if a loss has hidden an exec, or the ends of other threads,
// m can be the last message. If it is not, the last one comes soon, and tells the end. Else it is
// lost.
func (t *tracker) doubtEnd(m *message) {
	if t.view == nil || t.groups.byPID.In[m.pid].doubted || t.living.numbers.In[m.pid].over {
		return
	}
	st, start, err := t.view.Status(m.pid)
	if err != nil || !t.clock.StartedBy(start, m.time) || st.Over() {
		now := t.clock.now()
		t.markDoubted(m, now)
		t.doubts = append(t.doubts, doubt{*m, now})
	}
}

// loseDoubted states that the end of a process is lost, of which nothing is left, and that no
// message of it that is still to come is one more.
func (t *tracker) loseDoubted(m *message) {
	now := t.clock.now()
	t.dispel(m.pid)
	t.markDoubted(m, now)
	t.loseEnd(m, span{m.time, now})
}

func (t *tracker) markDoubted(m *message, now uint64) {
	g, known := t.groups.byPID.In[m.pid]
	if g.unseen, g.doubted = true, true; !known {
		g.over = now
	}
	t.groups.byPID.Put(m.pid, g)
}

// dispel forgets the doubt of a process whose end is told.
func (t *tracker) dispel(pid uint32) {
	t.doubts = slices.DeleteFunc(t.doubts, func(d doubt) bool { return d.m.pid == pid })
}

// tellDoubt states the doubt of a process whose number is given again.
func (t *tracker) tellDoubt(pid uint32) {
	if i := slices.IndexFunc(t.doubts, func(d doubt) bool { return d.m.pid == pid }); i >= 0 {
		d := t.doubts[i]
		t.doubts = slices.Delete(t.doubts, i, i+1)
		t.loseEnd(&d.m, span{d.m.time, d.now})
	}
}

// tellDoubts states the doubts of before a time.
func (t *tracker) tellDoubts(before uint64) {
	for len(t.doubts) > 0 && t.doubts[0].now < before {
		t.tellDoubt(t.doubts[0].m.pid)
	}
}

// settled says that the socket was empty at a time: groups that were over long before go, now that
// nothing of them is on its way.
func (t *tracker) settled(now uint64) {
	if now > maxStraggle {
		t.living.settle(now-maxStraggle, t.strays(now))
	}
	if now > doubtWait {
		t.tellDoubts(now - doubtWait)
	}
	for pid, e := range t.groups.byPID.In {
		if e.over != 0 && now > e.over+maxStraggle {
			t.groups.forget(pid)
		}
	}
	for tid, o := range t.groups.overtaken.In {
		if now > o.next+maxStraggle {
			delete(t.groups.overtaken.In, tid)
		}
	}
}

// reaped reports whether f is the end of a process that may have been reaped before its stamp, so
// that its number may be another's then.
func (f *fact) reaped() bool {
	return f.kind == engine.KindExit && !f.thread && !f.gone && f.m.reaped()
}

// fill makes ev the event of a fact that is of a message.
func (f *fact) fill(ev *engine.RawEvent) {
	m, t := f.m, &ev.Task
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Seq, ev.Time = f.kind, m.pid, m.tid, m.cpu, f.seq, m.time
	ev.Thread = f.thread
	switch f.kind {
	case engine.KindExec:
		t.Cached |= f.ofOther()
	case engine.KindFork:
		setParent(t, m)
		if !f.thread {
			t.ParentTID = m.parentTID
			t.Known |= engine.FieldBirthParentTID.Set()
		}
	case engine.KindExit:
		if !f.thread {
			setParent(t, m)
			if m.tid == m.pid && m.exitSignal >= 0 {
				t.ParentSignal = uint32(m.exitSignal)
				t.Known |= engine.FieldParentSignal.Set()
			}
		}
		if f.known {
			t.Exit = engine.Exit{WaitStatus: f.status, Time: m.time}
			t.Known |= engine.FieldExit.Set()
		}
	case engine.KindCoreDump:
		setParent(t, m)
	case engine.KindSetProcTitle:
		ev.Set(engine.FieldComm, m.newComm())
	case engine.KindPtrace:
		ev.Tracer.PID, ev.Tracer.TID = m.tpid, m.ttid
	case engine.KindIDChange:
		ev.IDChange = setIDs(t, m)
		t.Cached |= f.ofOther() &^ t.Known
		if m.what != SID && !f.thread { // an exec, which can fail yet, sets comm as well
			t.Cached |= engine.FieldComm.Set()
		}
		if m.what == UID && !f.thread { // and tells of the group ids in a second message
			t.Cached |= ofGroup
		}
	}
}

// ofOther returns the fields that are another thread's than before, if a thread with ids of its own
// has taken the leader's number to execute: they are not told by a message.
func (f *fact) ofOther() engine.Fields {
	if f.m.threads && !f.thread && f.m.what != SID {
		return engine.FieldsIDs
	}
	return 0
}

// setParent sets the parent as the kernel says it: real_parent, which for a child made with
// CLONE_PARENT is not who made it.
func setParent(t *engine.Task, m *message) {
	if m.ppid != 0 { // 0 also at the end of a process that was waited for already
		t.PPID = m.ppid
		t.Known |= engine.FieldPPID.Set()
	}
}

// setIDs sets the new ids and returns which they are.
func setIDs(t *engine.Task, m *message) engine.IDChange {
	switch m.what {
	case UID:
		t.Cred.UID, t.Cred.EUID = m.real, m.eff
		t.Known |= engine.FieldUIDs.Set()
		return engine.ChangedUID
	case GID:
		t.Cred.GID, t.Cred.EGID = m.real, m.eff
		t.Known |= engine.FieldGIDs.Set()
		return engine.ChangedGID
	}
	// setsid(2) makes the caller's group leader the leader of all three.
	t.SID, t.PGID = m.pid, m.pid
	t.Known |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	return engine.ChangedSID
}
