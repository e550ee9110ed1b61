package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/internal/freelist"
)

// groups knows which thread groups have more threads than their leader, so that of the
// kernel's exit messages, one a thread, the last can be told. A group that it does not
// know has one thread; so a process that never makes threads costs nothing here.
//
// Threads are kept as a set and not as a count, because they are learnt from two sides,
// messages and /proc, in any order. That is sound: the number of a thread that is not the
// leader leaves /proc before its exit message is sent, so every thread that /proc shows
// has its message still to come. One that /proc does not show may have, too.
type groups struct {
	threads freelist.Map[uint32, uint32] // living threads that are no leaders -> group
	byPID   freelist.Map[uint32, group]
	last6   bool // the group's status is that of the last thread to end: Linux 6.0
	// overtaken are threads whose process's number was given again before their exit messages.
	overtaken freelist.Map[uint32, overtaken]
}

// overtaken is whose thread it was, and when the next process of the number was born.
type overtaken struct {
	pid  uint32
	next uint64
}

// of reports whether m is the exit message of that thread. A leader that had not been reaped had
// its number at that time: after the birth it is the next process.
func (o overtaken) of(m *message) bool {
	return o.pid == m.pid && m.time < o.next+maxStraggle && (m.tid != m.pid || m.reaped() || m.time < o.next)
}

// group is a thread group that has, or had, threads besides its leader.
type group struct {
	live       uint32 // threads besides the leader
	leaderDone bool
	leaderTold bool  // by its message
	leader     int32 // wait status of the leader, once it has ended
	unseen     bool  // exits of it were not seen: endings is incomplete
	// over is when /proc, after a loss, first showed no thread of it that runs, 0 for not:
	// its next exit message may be the last.
	over    uint64
	confirm bool // its end is to be confirmed by /proc
	probed  bool // it is among those that are looked at
	doubted bool // a gap has told that its end may be lost
	aliveAt uint64
	endings groupstatus.Endings // of threads that ended after aliveAt
	last    uint64              // the latest time of an exit message
	late    uint32              // exit messages still to come of threads that an exec ended
	execed  uint64              // time of that exec
}

// trim lets go of memory that was not needed since the last call.
func (g *groups) trim() {
	g.threads.Trim()
	g.byPID.Trim()
	g.overtaken.Trim()
}

// add notes a living thread.
func (g *groups) add(pid, tid uint32) {
	if tid == pid {
		return
	}
	if old, ok := g.threads.In[tid]; ok {
		if old == pid {
			return
		}
		g.remove(old, tid) // its exit was lost, and the number is used again
	}
	g.threads.Put(tid, pid)
	delete(g.overtaken.In, tid)
	e := g.byPID.In[pid]
	e.live++
	g.byPID.Put(pid, e)
}

func (g *groups) remove(pid, tid uint32) {
	delete(g.threads.In, tid)
	if e, ok := g.byPID.In[pid]; ok && e.live > 0 {
		e.live--
		g.byPID.Put(pid, e)
	}
}

// forget drops what is known of a group.
func (g *groups) forget(pid uint32) {
	e, ok := g.byPID.In[pid]
	if !ok {
		return
	}
	if e.live > 0 {
		g.dropThreads(pid)
	}
	delete(g.byPID.In, pid)
}

// overtake forgets a group whose number has another process, born at a time, and returns it: its
// threads have ended.
func (g *groups) overtake(pid uint32, next uint64) group {
	e := g.byPID.In[pid]
	if e.live > 0 {
		for tid, of := range g.threads.In {
			if of == pid {
				g.overtaken.Put(tid, overtaken{pid, next})
			}
		}
		if !e.leaderTold {
			g.overtaken.Put(pid, overtaken{pid, next})
		}
	}
	g.forget(pid)
	return e
}

// dropThreads is slow, for what is rare.
func (g *groups) dropThreads(pid uint32) {
	for tid, of := range g.threads.In {
		if of == pid {
			delete(g.threads.In, tid)
		}
	}
}

// exec notes that a group has one thread now. When a thread other than the leader
// executes, it takes the leader's number. The exit messages of the other threads, that of the
// former leader among them, come before the message of the exec almost always, but each is sent by
// its dying thread in its own time, perhaps after the process has ended.
//
// From Linux 5.8 on the former leader gives the number that the executing thread had, if it
// reads its own after the exchange: then nothing tells it from that thread. If it gives
// the leader's number it read it before the exchange, and stamped the message before that; older
// kernels leave it the number, but not the exit signal: see message.former.
func (g *groups) exec(pid uint32, time uint64) {
	e, ok := g.byPID.In[pid]
	if !ok {
		return
	}
	late := e.live
	if late > 0 && e.leaderTold {
		late--
	}
	g.forget(pid)
	g.expect(pid, late, time)
}

// expect notes how many exit messages of threads that an exec ended are still to come.
func (g *groups) expect(pid, late uint32, execed uint64) {
	if late > 0 {
		g.byPID.Put(pid, group{late: late, execed: execed})
	}
}

// alive notes that no thread of the group was made to end at a time: those that had ended
// did so by themselves.
func (g *groups) alive(pid uint32, time uint64) {
	e, ok := g.byPID.In[pid]
	if !ok {
		return
	}
	e.aliveAt, e.endings, e.probed = time, groupstatus.Endings{}, false
	e.unseen = e.unseen && e.leaderDone && !g.last6
	if e.live+e.late == 0 && !e.leaderDone && !e.confirm {
		delete(g.byPID.In, pid) // as if there had never been a thread
		return
	}
	g.byPID.Put(pid, e)
}

// end is what an exit message means for its group.
type end struct {
	group   bool   // the group has ended with it
	time    uint64 // of that: a thread can be held between the stamp of its message and sending
	status  int32  // of the group
	known   bool   // status is certain
	confirm bool   // /proc has to confirm it; the group is kept
	probe   bool   // whether the group still runs is worth knowing
	unsure  bool   // see confirm
	lost    bool   // nothing tells any more whether it is one
	gone    bool   // the thread, or its group, had left /proc at the look after a loss
	alone   bool   // nothing has told of another thread
	dumper  uint32 // the thread that dumped core, if one is known to have
}

// exit notes the exit of a thread.
func (g *groups) exit(m *message) end {
	e, ok := g.byPID.In[m.pid]
	leader, known := m.tid == m.pid, g.threads.In[m.tid] == m.pid
	switch {
	case !ok:
		// One thread only; or a straggler of a group that is gone.
		return end{group: leader && !m.former, time: m.time, status: int32(m.status), known: true, gone: !leader, alone: true}
	case e.late > 0 && !known && (!leader || m.former || m.time < e.execed):
		e.late--
		g.byPID.Put(m.pid, e)
		if e.live+e.late == 0 && !e.leaderDone && !e.confirm {
			delete(g.byPID.In, m.pid)
		}
		return end{}
	case leader && e.leaderTold && !m.former:
		// A thread took the leader's number to execute, and was killed in the exec, unless
		// a loss has hidden that: then it can be a leader whose threads run.
		g.forget(m.pid)
		return end{group: true, time: m.time, status: int32(m.status), known: true, confirm: e.unseen}
	case leader:
		e.leaderDone, e.leaderTold, e.leader = true, true, int32(m.status)
	case known:
		delete(g.threads.In, m.tid)
		e.live--
	case e.over == 0 || e.live > 0:
		return end{gone: e.over != 0 || e.live == 0}
	}
	e.last = max(e.last, m.time)
	if m.time > e.aliveAt {
		e.endings.Add(m.tid, int32(m.status))
	}
	if e.live > 0 && e.over == 0 || !e.leaderDone || m.former {
		probe := !e.probed
		e.probed = true
		g.byPID.Put(m.pid, e)
		return end{probe: probe}
	}
	status, known := e.endings.Verdict(e.leader, g.last6)
	if e.unseen && !groupstatus.Certain(e.endings.Fatal) {
		known = false
	}
	if e.confirm {
		g.byPID.Put(m.pid, e)
	} else {
		g.forget(m.pid)
		g.expect(m.pid, e.late, e.execed)
	}
	return end{group: true, time: e.last, status: status, known: known, confirm: e.confirm, gone: e.over != 0, dumper: e.endings.Dumper}
}
