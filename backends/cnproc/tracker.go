package cnproc

import (
	"cmp"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/freelist"
)

// tracker takes the messages in the order in which they come and states facts. It knows of
// each process what decides when and how it ended; it looks at /proc only for the processes and
// threads that there are: at the start, after a loss, and to learn whether a group still runs.
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
	born      []thread // to see whether they are the kernel's
	retired   []retired
	current   fact // of the message that is handled, which a variable would allocate
}

// behaviour is what differs between kernels.
type behaviour struct {
	// spreads is set if a core dump sets the wait status of all that share the memory, also
	// of one that ends with another: before Linux 5.16.
	spreads bool
	workers bool // the kernel makes threads of a process for itself: Linux 5.12
}

// thread is a thread of a process.
type thread struct{ pid, tid uint32 }

// retired is a process that has ended, of which messages can come.
type retired struct {
	pid  uint32
	time uint64
}

// deaths has what the kernel reports of core dumps before the end of their processes.
type deaths struct {
	dumping freelist.Map[uint32, dump] // processes whose core may be dumped
	dumped  uint64                     // the latest end of one
}

// dump is the message that a core may be dumped: the thread, and when it was sent.
type dump struct {
	tid  uint32
	time uint64
}

func newTracker(v view, c *bootClock, l *loss, last6 bool, state func(*fact)) *tracker {
	t := &tracker{state: state, view: v, clock: c, loss: l, lives: true, groups: groups{last6: last6}}
	if v == nil {
		l.lose(1) // nothing is known of the processes that there are
	}
	return t
}

// trim lets go of memory that was not needed since the last call.
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
		// Sent when a signal of that action arrives, whether or not a core is dumped:
		// the exit status tells.
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

// lose gives up what a message that is missing can have changed, and states the gap unless gaps
// have told of all that is missing. early is set if the gap was stated already.
func (t *tracker) lose(g engine.Gap, early bool) {
	t.epoch++
	clear(t.owed.In)
	t.loss.lose(g.To)
	// Nothing shows any more whether there were cores.
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

// doubtful reports whether the pid can be another process's than before a loss.
func (t *tracker) doubtful(m *message) bool {
	_, fresh := t.fresh(m.pid, m.time)
	return t.loss.until > 0 && !fresh
}

// threads reports whether the process of a message may have, or have had, other threads.
func (t *tracker) threads(m *message) bool {
	p, fresh := t.fresh(m.pid, m.time)
	return t.groups.threaded(m.pid) || t.loss.unseen(m.time) && (!fresh || p.late)
}

// exit states the end of a thread, and that of its process if it was the last.
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
		m.time = min(m.time, p.born-1) // it is of an older process
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

// settled says that the socket was empty at a time: nothing of processes that ended long before is
// on its way.
func (t *tracker) settled(now uint64) {
	n := 0
	for ; n < len(t.retired) && t.retired[n].time+2*maxStraggle < now; n++ {
		if r := t.retired[n]; t.processes.In[r.pid].over && t.processes.In[r.pid].born <= r.time {
			delete(t.processes.In, r.pid)
		}
	}
	t.retired = append(t.retired[:0], t.retired[n:]...)
}
