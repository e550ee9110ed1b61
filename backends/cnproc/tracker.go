package cnproc

import (
	"cmp"
	"slices"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// tracker receives the messages in the order of arrival and states facts. It decides when and how
// a process has ended. It looks at /proc only for processes with threads that no message has shown:
// at the start, after a loss, and at the end of such a process.
type tracker struct {
	processes
	state   func(*fact)
	view    view // nil without /proc
	clock   *bootClock
	loss    *loss
	dumps   dumps
	lostTo  uint64 // the latest end of a gap
	relearn bool   // /proc is to be read again
	learned uint64 // time of the latest reading
	current fact   // of the current message; a local variable would be allocated
}

// view is the tracker's access to /proc: a [procfs.Reader].
type view interface {
	groupstatus.View
	PIDs() ([]uint32, error)
}

// dumps holds the announced core dumps. Before Linux 5.16 a core dump sets the wait status of all
// processes that share the memory, also of one that ends with another status.
type dumps struct {
	spread  bool            // the kernel is older
	dumping map[uint32]bool // processes that may dump core
	dumped  uint64          // time of the latest end of such a process
}

// end records the end of a process and reports whether another dump may have set its status.
// Seccomp's KILL_THREAD dumps core without a message.
func (d *dumps) end(m *message, status int32) (unsure bool) {
	if !d.spread {
		return false
	}
	own := d.dumping[m.pid] || status&groupstatus.CoreDumped != 0
	delete(d.dumping, m.pid)
	if unsure = len(d.dumping) > 0; own {
		d.dumped = max(d.dumped, m.time)
	} else {
		unsure = unsure || status == groupstatus.KilledThread || d.dumped != 0 && m.time <= d.dumped+maxStraggle
	}
	return unsure && !groupstatus.Certain(status)
}

// take handles one message.
func (t *tracker) take(m *message) {
	seq, g := t.loss.saw(m)
	if g.Count > 0 {
		t.lose(g)
	}
	if m.what == whatAck {
		return
	}
	f := &t.current
	*f = fact{kind: kinds[m.what], m: m, seq: seq, thread: m.tid != m.pid && m.what != Exec && m.what != SID}
	f.doubtful = t.epoch > 0 && t.byPID.In[m.pid].state == unseen
	switch m.what {
	case Fork:
		t.fork(m)
	case Exec:
		t.exec(m)
	case Exit:
		t.exit(f)
		return
	case CoreDump:
		// The kernel sends it when a signal of that action arrives, whether or not a core
		// is dumped. The exit status decides.
		if t.dumps.spread {
			t.dumps.dumping[m.pid] = true
		}
		return
	}
	t.state(f)
}

// lose discards the state that a missing message may have changed, and states the gap.
func (t *tracker) lose(g engine.Gap) {
	t.processes.lose()
	t.relearn = true
	t.lostTo = max(t.lostTo, g.To)
	if clear(t.dumps.dumping); t.dumps.spread {
		t.dumps.dumped = max(t.dumps.dumped, g.To)
	}
	t.state(&fact{kind: engine.KindGap, gap: g})
}

// fork records a birth. If the pid is reused, the earlier process has ended, and its exit message
// is still to come: a process that ends wakes its parent before it sends its message. With
// PREEMPT_RT this order is the rule if a parent reuses the pid.
func (t *tracker) fork(m *message) {
	old, ok := t.byPID.In[m.pid]
	if m.tid != m.pid {
		if old.state == seen {
			t.addThread(m.pid, m.tid, &old)
			t.byPID.Put(m.pid, old)
		}
		return
	}
	p := process{born: m.time, epoch: t.epoch, state: t.stateAt(m.time), doubt: t.epoch > 0 && m.time <= t.lostTo+maxStraggle}
	if ok && old.epoch == t.epoch {
		p.owed, p.doubt = old.owed, p.doubt || old.doubt
		if old.state != over && old.born < m.time {
			old.state = over
			end := message{what: Exit, cpu: m.cpu, time: m.time - 1, tid: m.pid, pid: m.pid, exitSignal: -1}
			t.state(&fact{kind: engine.KindExit, m: &end})
			t.early[m.pid] = end.time
			t.retired = append(t.retired, retired{m.pid, end.time})
		}
		if old.state == over && !old.leaderDone {
			p.owed++
		}
	}
	t.replace(m.pid, p)
}

// stateAt returns the state of a process that had one thread at the given time. A loss may hide its
// later threads.
func (t *tracker) stateAt(time uint64) state {
	if time <= t.lostTo {
		return unseen
	}
	return seen
}

// exec leaves a process with one thread.
func (t *tracker) exec(m *message) {
	p := t.byPID.In[m.pid]
	if p.state == over && m.time < p.last { // sent before /proc showed no process
		p.leaderDone = false
		t.byPID.Put(m.pid, p)
		return
	}
	next := process{born: m.time, execed: m.time, epoch: t.epoch, state: t.stateAt(m.time), threaded: p.threaded || p.state == unseen}
	if p.state != over && p.born != 0 {
		next.born, next.owed, next.doubt = min(p.born, m.time), p.owed, p.doubt
	}
	t.replace(m.pid, next)
}

// exit states the end of a thread, and the end of its process if the thread was the last.
func (t *tracker) exit(f *fact) {
	m := f.m
	leader := m.tid == m.pid && !m.former
	p := t.byPID.In[m.pid]
	if leader && p.state == over && p.epoch != t.epoch && m.time > p.last {
		p = process{}
	}
	var e end
	switch {
	case m.former, p.state == over && !leader:
	case leader && t.mayBeReported(m, &p):
		t.loseEnd(m)
		return
	case leader && p.mayBeEarlier(m):
		if e = t.lookAtEarlier(m, &p); !e.all {
			t.byPID.Put(m.pid, p)
			return
		}
	case p.state == over:
		p.leaderDone = true
	case p.state == seen:
		e = t.endThread(m, &p)
	default:
		if e = t.lookAtEnd(m, leader, &p); leader && !e.all && !p.leaderDone {
			t.loseEnd(m) // of an earlier process
			return
		}
	}
	if m.tid != m.pid || !e.all {
		f.thread, f.status, f.known = true, int32(m.status), true
		t.state(f)
	}
	switch {
	case e.all:
		t.finish(f, p, &e)
	case !m.former:
		if n := len(t.ended); p.state != over && (n == 0 || t.ended[n-1] != m.pid) {
			t.ended = append(t.ended, m.pid)
		}
		t.byPID.Put(m.pid, p)
	}
}

// finish states the end of a process, with its core dump.
func (t *tracker) finish(f *fact, p process, e *end) {
	m := f.m
	m.time = max(m.time, e.time)
	if e.looked {
		t.early[m.pid] = m.time
	}
	last := process{
		born: p.born, execed: p.execed, last: m.time, epoch: t.epoch, state: over, owed: p.owed, doubt: p.doubt, threaded: true}
	last.leaderDone = !e.looked || p.leaderDone || m.tid == m.pid
	if t.replace(m.pid, last); p.threaded || e.looked || p.owed > 0 || p.doubt {
		t.retired = append(t.retired, retired{m.pid, m.time})
	} else {
		delete(t.byPID.In, m.pid)
	}
	f.known = !t.dumps.end(m, e.status) && e.known
	f.thread, f.status = false, e.status
	if core := (engine.Exit{WaitStatus: e.status}); f.known && core.CoreDumped() {
		dump := *m
		dump.tid = cmp.Or(e.dumper, m.tid)
		t.state(&fact{kind: engine.KindCoreDump, m: &dump, seq: f.seq, doubtful: f.doubtful})
	}
	t.state(f)
}

// mayBeEarlier reports whether the exit message of a leader may be of an earlier process of the pid
// than p, or p's own after the end of p was reported at such a message. A message with a parent is
// of the process that had the pid when it was stamped. A message without a parent may be of any
// process born by then.
func (p *process) mayBeEarlier(m *message) bool {
	return m.time < p.born || p.state == over && p.leaderDone || m.reaped() && (p.owed > 0 || p.doubt && m.time <= p.born+maxStraggle)
}

// mayBeReported reports whether a loss hides which process of the pid the exit message of a leader
// belongs to: p, or an earlier one whose end was reported before its message.
func (t *tracker) mayBeReported(m *message, p *process) bool {
	at, ok := t.early[m.pid]
	return t.epoch > 0 && ok && m.time <= min(at+maxStraggle, t.lostTo+2*maxStraggle) && (m.reaped() || m.time < p.born || p.born <= at)
}

// lookAtEarlier handles such a message. p has ended if /proc shows so.
func (t *tracker) lookAtEarlier(m *message, p *process) (e end) {
	if p.state != over && m.time >= p.born {
		if _, ended := t.look(m, p.born); ended {
			m.ppid, m.exitSignal = 0, -1
			return end{all: true, looked: true, time: t.clock.now()}
		}
	}
	switch {
	case p.owed > 0: // it was reported at the FORK
		p.owed--
	case t.epoch > 0: // it is of that process, or of a former leader
		t.loseEnd(m)
	}
	return end{}
}

// lookAtEnd handles the exit message of a thread of a process that may have unseen threads: the
// process has ended if /proc shows so. Another thread can have ended later.
func (t *tracker) lookAtEnd(m *message, leader bool, p *process) (e end) {
	if t.view == nil && !leader {
		return end{}
	}
	st, ended := t.look(m, m.time)
	switch {
	case ended:
		return end{all: true, looked: true, time: t.clock.now(), status: int32(m.status), known: groupstatus.Certain(int32(m.status))}
	case leader:
		p.leaderDone = st.Zombie() && !m.reaped()
	}
	return end{}
}

// look reads the process of an exit message, which ran at a time, and reports whether it has
// ended. Without a process in /proc the message's parent is not certain.
func (t *tracker) look(m *message, time uint64) (st procfs.Status, ended bool) {
	start, err := uint64(0), procfs.ErrVanished
	for try := 0; t.view != nil && (try == 0 || try == 1 && err == nil && st.Zombie() && st.Threads == 0); try++ {
		st, start, err = t.view.Status(m.pid) // again if its leader was just released
	}
	if err != nil || !t.clock.StartedBy(start, time) {
		m.ppid, m.exitSignal = 0, -1
		return st, true
	}
	return st, st.Over()
}

// loseEnd counts an end as lost, because the process of its message is unknown.
func (t *tracker) loseEnd(m *message) {
	t.loss.void++
	t.state(&fact{kind: engine.KindGap, gap: engine.Gap{
		Cause: engine.LossSocketFull, CPU: m.cpu, From: m.time, To: max(m.time, t.clock.now()), Count: 1,
	}})
}

// relearnInterval is the shortest time, in ns, between two looks through /proc after losses.
const relearnInterval = 100_000_000

// idle is called when the socket is empty. It checks new threads: the end of a kernel worker is
// unrelated to the end of its process. It checks processes with ended threads: if another thread
// still runs, the ended threads did not end the process.
func (t *tracker) idle() {
	now := t.clock.now()
	t.dropRetired(now)
	if t.relearn && now >= t.learned+relearnInterval {
		t.learn()
	}
	for _, tid := range t.born {
		if pid, ok := t.threads.In[tid]; ok && t.view != nil {
			if st, _, err := t.view.ThreadStatus(pid, tid); err == nil && st.Worker {
				t.removeThread(tid)
			}
		}
	}
	for _, pid := range t.ended {
		p, ok := t.byPID.In[pid]
		switch {
		case !ok || t.view == nil:
		case p.state == unseen:
			t.learnProcess(pid)
		case p.state == seen && !p.alone():
			if alive, _ := groupstatus.Runs(t.view, pid, p.leaderDone); alive {
				p.aliveAt, p.endings = now, groupstatus.Endings{}
				t.byPID.Put(pid, p)
			}
		}
	}
	t.born, t.ended = t.born[:0], t.ended[:0]
}

// learn reads the existing processes from /proc at the start and after a loss, except processes
// forked since then. Older messages in the socket do no harm to the set of threads.
func (t *tracker) learn() {
	var pids []uint32
	if t.relearn = false; t.view != nil {
		pids, _ = t.view.PIDs()
	}
	for _, pid := range slices.Clone(pids) {
		if p := t.byPID.In[pid]; p.state == unseen || p.state == over && p.epoch != t.epoch {
			t.learnProcess(pid)
		}
	}
	for pid, p := range t.byPID.In {
		if p.state != over && p.epoch != t.epoch { // its end is lost
			delete(t.byPID.In, pid)
		}
	}
	t.learned = t.clock.now()
}

// learnProcess reads a process from /proc. Its threads are known if it is alive after they were
// listed: no end of the whole process has begun then.
func (t *tracker) learnProcess(pid uint32) {
	began := t.clock.now()
	st, _, err := t.view.Status(pid)
	if err != nil || st.Over() || st.Zombie() && st.Threads <= 1 {
		return // its exit message may still come
	}
	p := process{born: began, execed: began, epoch: t.epoch, state: seen, threaded: true, doubt: true, leaderDone: st.Zombie()}
	t.replace(pid, p)
	if st.Threads > 1 {
		tids := t.view.Tasks(pid)
		p.aliveAt = t.clock.now()
		alive, _ := groupstatus.Runs(t.view, pid, p.leaderDone)
		if !alive || len(tids) != int(st.Threads) || p.leaderDone && !t.last6 {
			p.state, t.ended = unseen, append(t.ended, pid) // idle tries once more
		}
		for _, tid := range tids {
			if p.state == seen && tid != pid {
				t.addThread(pid, tid, &p)
			}
		}
	}
	t.byPID.Put(pid, p)
}
