package cnproc

import (
	"cmp"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/freelist"
)

// tracker receives the messages in the order of arrival and states facts. It keeps for each process
// the state that decides when and how the process ended. It looks at /proc only for the existing
// processes and threads: at the start, after a loss, and to learn whether a group still runs.
type tracker struct {
	state func(*fact)
	view  view // nil without /proc
	clock *bootClock
	loss  *loss
	lives bool // all forks and exits come
	behaviour

	epoch     uint32 // losses
	processes freelist.Map[uint32, process]
	owed      freelist.Map[uint32, []owed] // in their order
	groups    groups
	deaths    deaths
	probes    []probe
	born      []thread // to check whether they are the kernel's
	retired   []retired
	current   fact // of the current message; a local variable would be allocated
}

// behaviour holds the differences between kernels.
type behaviour struct {
	// spreads is set before Linux 5.16: a core dump sets the wait status of all processes that
	// share the memory, also of one that ends with another status.
	spreads bool
	workers bool // the kernel makes threads of a process for itself: Linux 5.12
}

// thread is a thread of a process.
type thread struct{ pid, tid uint32 }

// retired is a process that has ended, but may have messages on their way.
type retired struct {
	pid  uint32
	time uint64
}

// deaths holds the core dumps that the kernel announced before the end of their processes.
type deaths struct {
	dumping freelist.Map[uint32, dump] // processes that may dump core
	dumped  uint64                     // the latest end of one
}

// dump is the message that a core may be dumped: its thread and its time.
type dump struct {
	tid  uint32
	time uint64
}

func newTracker(v view, c *bootClock, l *loss, last6 bool, state func(*fact)) *tracker {
	t := &tracker{state: state, view: v, clock: c, loss: l, lives: true, groups: groups{last6: last6}}
	if v == nil {
		l.lose(1) // the existing processes are unknown
	}
	return t
}

// trim releases memory that was unused since the last call.
func (t *tracker) trim() {
	t.groups.trim()
	t.processes.Trim()
	t.owed.Trim()
	t.deaths.dumping.Trim()
	t.probes, t.retired, t.born = freelist.Shrink(t.probes), freelist.Shrink(t.retired), freelist.Shrink(t.born)
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
	*f = fact{m: m, seq: seq, thread: m.tid != m.pid, doubtful: t.doubtful(m)}
	m.threads = m.threads || t.threads(m)
	switch m.what {
	case Fork:
		f.kind, f.doubtful = engine.KindFork, f.doubtful && f.thread
		t.fork(m)
	case Exec:
		f.kind, f.thread = engine.KindExec, false
		t.executed(m)
		t.groups.exec(m.pid, m.time)
		delete(t.deaths.dumping.In, m.pid)
	case Exit:
		f.kind = engine.KindExit
		t.exit(f)
		return
	case CoreDump:
		// The kernel sends it when a signal of that action arrives, whether or not a core
		// is dumped. The exit status decides.
		t.deaths.dumping.Put(m.pid, dump{m.tid, m.time})
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

// lose discards the state that a missing message may have changed. It states the gap, unless
// earlier gaps have reported all missing messages. early is set if the gap was stated already.
func (t *tracker) lose(g engine.Gap, early bool) {
	t.epoch++
	clear(t.owed.In)
	t.loss.lose(g.To)
	// It is unknown now whether these processes dumped core.
	cores := uint64(len(t.deaths.dumping.In))
	for _, d := range t.deaths.dumping.In {
		g.From, g.CPU = min(g.From, d.time), engine.AllCPUs
	}
	clear(t.deaths.dumping.In)
	g.Count += cores
	t.loss.void += cores
	if !early && (g.CPU == engine.AllCPUs || g.Count > 0) || cores > 0 {
		t.state(&fact{kind: engine.KindGap, gap: g})
	}
}

// doubtful reports whether the pid may belong to another process than before a loss.
func (t *tracker) doubtful(m *message) bool {
	_, fresh := t.fresh(m.pid, m.time)
	return t.loss.until > 0 && !fresh
}

// threads reports whether the process of a message may have, or have had, other threads.
func (t *tracker) threads(m *message) bool {
	p, fresh := t.fresh(m.pid, m.time)
	return t.groups.threaded(m.pid) || t.loss.unseen(m.time) && (!fresh || p.late)
}

// exit states the end of a thread, and the end of its process if the thread was the last.
func (t *tracker) exit(f *fact) {
	m := f.m
	p, fresh := t.fresh(m.pid, m.time)
	leader := m.tid == m.pid && !m.former
	p.over = p.over && (fresh || p.unseen || !leader)
	if leader && (fresh || p.over || !p.late && m.time < p.born) && t.ofOlder(f, &p) {
		return
	}
	var e end
	if fresh && !p.over {
		e = t.groups.exit(m)
	}
	if e.unseen || !fresh && !p.over && (leader || m.tid != m.pid && t.view != nil && t.loss.strays(m.time)) {
		e = t.exitUnseen(m, leader)
	}
	if e.probe {
		t.probes = append(t.probes, probe{pid: m.pid})
	}
	if _, grouped := t.groups.byPID.In[m.pid]; m.tid != m.pid && fresh && !p.late && !p.over && !grouped && !e.group && p.born > 0 {
		m.time = min(m.time, p.born-1) // it belongs to an older process
	}
	if m.tid != m.pid || !e.group {
		f.thread, f.status, f.known = true, int32(m.status), true
		t.state(f)
	}
	if e.group {
		t.finish(f, p, &e)
	}
}

// finish states the end of a process.
func (t *tracker) finish(f *fact, p process, e *end) {
	m := f.m
	stamp := m.time
	m.time = max(e.time, m.time, p.mixed)
	if e.unseen {
		p = process{born: t.clock.now(), unseen: true, told: m.tid == m.pid, mixed: stamp, epoch: t.epoch}
	}
	_, grouped := t.groups.byPID.In[m.pid]
	t.forget(m.pid)
	if grouped || e.unseen || m.time <= p.doubt || len(t.owed.In[m.pid]) > 0 {
		p.over = true
		t.processes.Put(m.pid, p)
		t.retired = append(t.retired, retired{m.pid, max(m.time, p.born)})
	}
	d, announced := t.deaths.dumping.In[m.pid]
	quiet := !announced && t.dumpsQuietly(e.status)
	f.known = e.known && (p.mixed == 0 || p.unseen) && !t.dumpSets(m, e.status) && !(quiet && e.status == groupstatus.KilledThread)
	f.thread, f.status, f.unseen = false, e.status, e.unseen
	if announced || quiet {
		delete(t.deaths.dumping.In, m.pid)
		t.deaths.dumped = max(t.deaths.dumped, m.time)
		if core := (engine.Exit{WaitStatus: e.status}); f.known && core.CoreDumped() {
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
	others := len(t.deaths.dumping.In)
	if _, own := t.deaths.dumping.In[m.pid]; own {
		others--
	}
	since := max(t.deaths.dumped, t.loss.until)
	return others > 0 || since != 0 && m.time <= since+maxStraggle
}

// settled records that the socket was empty at a time: all messages of processes that ended long
// before have arrived.
func (t *tracker) settled(now uint64) {
	n := 0
	for ; n < len(t.retired) && t.retired[n].time+2*maxStraggle < now; n++ {
		if r := t.retired[n]; t.processes.In[r.pid].over && t.processes.In[r.pid].born <= r.time {
			delete(t.processes.In, r.pid)
		}
	}
	t.retired = append(t.retired[:0], t.retired[n:]...)
}
