package cnproc

import (
	"slices"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// process is the state of the latest process of a pid, as shown by the messages since the last loss
// or by a look at /proc after it.
type process struct {
	born   uint64 // stamp of its FORK, or of an exec or a look if late or unseen is set
	late   bool   // its birth was not seen
	zombie bool   // late: its leader had ended by then
	epoch  uint32 // losses before; after another one the pid may be another process's
	over   bool   // its end was reported
	unseen bool   // over: /proc showed the end, at a message that may not be the last
	told   bool   // unseen: its leader's message has come
	mixed  uint64 // latest stamp of a message from it or from an older process of the pid
	doubt  uint64 // messages stamped until then may be from an older process that is not owed
	first  uint64 // time before which that older process ended, 0 if unknown
	ran    uint64 // when it was seen running after such a message
}

// owed is a process with an exit message still to come, although its pid was reused.
type owed struct {
	born, next uint64
	alone      bool // it had no other threads: the status of its leader is its own
}

// maxStraggle is how long after the end of a process messages of its threads can come, in ns.
const maxStraggle = 1_000_000_000

// fresh returns the state of the latest process of a pid at a time. ok is false if a loss may have
// hidden its end, or the birth of another process.
func (t *tracker) fresh(pid uint32, time uint64) (p process, ok bool) {
	if p, ok = t.processes.In[pid]; ok {
		return p, p.epoch == t.epoch
	}
	return process{epoch: t.epoch}, !t.loss.strays(time)
}

// fork records a birth. If the pid is reused, the earlier process has ended and its exit message is
// owed: a process that ends wakes its parent before it sends its message. With PREEMPT_RT that is
// the rule if a parent reuses the pid.
func (t *tracker) fork(m *message) {
	if m.tid != m.pid {
		t.groups.add(m.pid, m.tid)
		if t.view != nil && t.workers {
			t.born = append(t.born, thread{m.pid, m.tid})
		}
		return
	}
	p := process{born: m.time, epoch: t.epoch}
	old, known := t.processes.In[m.pid]
	switch {
	case known && old.epoch == t.epoch && !old.unseen:
		p.doubt, p.first = old.doubt, old.first
		if !old.over && old.born < m.time && (old.ran == 0 || old.ran < m.time) {
			t.overtake(m, &old)
		}
	case known || t.loss.strays(m.time):
		p.doubt, p.first = m.time+maxStraggle, m.time
	}
	t.forget(m.pid)
	if t.lives && t.loss.sees(m) {
		t.processes.Put(m.pid, p)
	}
}

// overtake records that the FORK m reuses the pid of old.
func (t *tracker) overtake(m *message, old *process) {
	g, threaded := t.groups.byPID.In[m.pid]
	if !g.leaderTold {
		t.owed.Put(m.pid, append(t.owed.In[m.pid], owed{old.born, m.time, !threaded && old.mixed == 0 && !old.late}))
		return
	}
	end := message{what: Exit, cpu: m.cpu, time: m.time - 1, tid: m.pid, pid: m.pid, exitSignal: -1}
	status, _ := g.endings.Verdict(g.leader, t.groups.last6)
	t.state(&fact{kind: engine.KindExit, m: &end, status: status, known: g.endings.Fatal != 0 && !g.unseen, older: true})
}

// executed records that an otherwise unknown process runs.
func (t *tracker) executed(m *message) {
	switch p, fresh := t.fresh(m.pid, m.time); {
	case p.unseen && m.time < p.born:
		p.told = false // it was the message of a former leader
		t.processes.Put(m.pid, p)
	case (!fresh || p.over) && t.lives && t.loss.sees(m):
		t.forget(m.pid)
		t.processes.Put(m.pid, process{born: m.time, late: true, epoch: t.epoch, doubt: m.time + maxStraggle})
	}
}

// forget drops the state of the latest process of a pid.
func (t *tracker) forget(pid uint32) {
	t.groups.forget(pid)
	delete(t.processes.In, pid)
}

// ofOlder handles the exit message of a leader if it belongs, or may belong, to an older process of
// the pid than p, and reports whether it did. A message with a parent belongs to the process that
// had the pid when it was stamped. A message without a parent may belong to any process born by
// then: the oldest owed one has ended in any case.
func (t *tracker) ofOlder(f *fact, p *process) bool {
	m, late := f.m, t.owed.In[f.m.pid]
	switch {
	case !p.over && (m.time >= p.born || p.zombie) && !m.reaped():
		p.mixed = 0 // the message is its own
		return false
	case !p.over && (m.time >= p.born || p.zombie) && len(late) == 0 && m.time > p.doubt:
		return false
	case len(late) > 0:
		t.endOwed(f, p, late)
	case p.unseen:
		if p.told && t.loss.strays(m.time) {
			t.loseEnd(m, min(m.time, p.mixed)) // or it is of a former leader
		}
		p.told = true
	case p.over && m.time > p.doubt, p.late && m.time < p.born && (p.zombie || !t.loss.strays(m.time)):
		return false // of a former leader
	case p.over || m.time < p.born && p.mixed == 0:
		t.endFirst(f, p)
	default:
		st, start, err := t.status(m.pid)
		if f.seen = t.clock.now(); err != nil || st.Zombie() || !t.clock.StartedBy(start, p.born) {
			f.unsure, m.time, f.seen = true, f.seen, 0
			if p.mixed != 0 {
				m.ppid, m.exitSignal = 0, -1
			}
			return false
		}
		p.ran = f.seen
		t.endFirst(f, p)
	}
	t.processes.Put(m.pid, *p)
	return true
}

// endFirst states the end of a process that had the pid before every known process.
func (t *tracker) endFirst(f *fact, p *process) {
	switch m := f.m; {
	case m.time < p.born && !m.reaped() && !p.late:
		t.endOlder(f, p.born, true)
	case p.first == 0, p.epoch != t.epoch:
		t.loseEnd(m, m.time) // or it is of a former leader
	default:
		t.endOlder(f, p.first, m.time < p.first)
	}
}

// endOwed states the end of the process that sent a message or, if that is unclear, of the oldest
// owed one.
func (t *tracker) endOwed(f *fact, p *process, late []owed) {
	m := f.m
	i := slices.IndexFunc(late, func(o owed) bool { return o.born <= m.time && m.time < o.next })
	own := i >= 0 && (!m.reaped() || i == 0 && late[i].alone && m.time > p.doubt)
	if !own {
		i = 0
		if m.reaped() {
			p.mixed = max(p.mixed, m.time)
		}
		for j := range late {
			late[j].alone = false
		}
	}
	f.known = own && late[i].alone
	next := late[i].next
	if late = slices.Delete(late, i, i+1); len(late) > 0 {
		t.owed.In[m.pid] = late
	} else {
		delete(t.owed.In, m.pid)
	}
	t.endOlder(f, next, own)
}

// endOlder states the end of a process that lost its pid to another one at the time next. own is
// set if the message is its own.
func (t *tracker) endOlder(f *fact, next uint64, own bool) {
	m := f.m
	if m.time = min(m.time, next-1); !own {
		m.time, m.ppid, m.exitSignal = next-1, 0, -1
	}
	f.thread, f.older, f.status = false, true, int32(m.status)
	t.state(f)
}

// exitUnseen handles the exit message of a thread if a loss may have hidden other threads of its
// process. The process has ended if /proc shows so.
func (t *tracker) exitUnseen(m *message, leader bool) (e end) {
	st, start, err := t.status(m.pid)
	switch {
	case err != nil, !t.clock.StartedBy(start, m.time), st.Over():
		// Another thread can have ended later.
		e = end{group: true, unseen: true, time: t.clock.now(), status: int32(m.status), known: groupstatus.Certain(int32(m.status))}
	case leader && !st.Zombie() && (m.reaped() || !t.clock.StartedBefore(start, m.time)):
		t.loseEnd(m, m.time) // or it is of a former leader
	}
	if g, ok := t.groups.byPID.In[m.pid]; ok && !e.group {
		g.leaderDone = st.Zombie()
		t.groups.byPID.Put(m.pid, g)
		for _, tid := range t.view.Tasks(m.pid) {
			t.groups.add(m.pid, tid)
		}
	}
	return e
}

// loseEnd states that an end at or after a time may be lost: it is unknown whether the message
// belongs to one.
func (t *tracker) loseEnd(m *message, from uint64) {
	t.loss.void++
	t.state(&fact{kind: engine.KindGap, m: m, gap: engine.Gap{
		Cause: engine.LossSocketFull, CPU: m.cpu, From: from, To: max(m.time, t.clock.now()), Count: 1,
	}})
}

// status returns the status of a process in /proc.
func (t *tracker) status(pid uint32) (st procfs.Status, start uint64, err error) {
	if t.view == nil {
		return st, 0, procfs.ErrVanished
	}
	if st, start, err = t.view.Status(pid); err == nil && st.Zombie() && st.Threads == 0 {
		return t.view.Status(pid) // the leader was released amid the look
	}
	return st, start, err
}
