package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/internal/freelist"
)

// groups holds the thread groups that have, or had, more threads than their leader. A group that is
// not in it has one thread, so that single-threaded processes cost no memory here.
//
// Threads are a set and not a count, because messages and /proc add them in any order. That is
// sound: the number of a thread that is not the leader leaves /proc before its exit message is
// sent, so the message of every thread in /proc is still to come.
type groups struct {
	threads freelist.Map[uint32, uint32] // living threads that are no leaders -> group
	byPID   freelist.Map[uint32, group]
	last6   bool // the last thread to end sets the group's status: Linux 6.0
}

// group is a thread group that has, or had, threads besides its leader.
type group struct {
	live       uint32 // threads besides the leader
	leaderDone bool
	leaderTold bool   // by its message
	unseen     bool   // exits of it were not seen: endings is incomplete
	probed     bool   // it is among those that are looked at
	leader     int32  // wait status of the leader, once it has ended
	last       uint64 // the latest time of an exit message
	execed     uint64 // time of the latest exec
	aliveAt    uint64
	endings    groupstatus.Endings // of threads that ended after aliveAt
}

// trim releases memory that was unused since the last call.
func (g *groups) trim() {
	g.threads.Trim()
	g.byPID.Trim()
}

// threaded reports whether a process may have other threads than its leader.
func (g *groups) threaded(pid uint32) bool {
	e, ok := g.byPID.In[pid]
	return ok && (e.live > 0 || e.leaderDone || e.endings.N > 0)
}

// add adds a living thread.
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

// forget drops a group and its threads.
func (g *groups) forget(pid uint32) {
	e, ok := g.byPID.In[pid]
	if !ok {
		return
	}
	delete(g.byPID.In, pid)
	if e.live == 0 {
		return
	}
	for tid, of := range g.threads.In { // slow, but rare
		if of == pid {
			delete(g.threads.In, tid)
		}
	}
}

// exec leaves a group with one thread. A thread other than the leader takes the leader's number
// when it executes. The exit messages of the other threads and of the former leader can come later,
// even after the end of the process.
//
// From Linux 5.8 on the former leader reports the number that the executing thread had, if it reads
// its own after the exchange. If it reports the leader's number, it read that before the exchange,
// and stamped the message before that. Older kernels leave it the number, but not the exit signal:
// see message.former.
func (g *groups) exec(pid uint32, time uint64) {
	if _, ok := g.byPID.In[pid]; ok {
		g.forget(pid)
		g.byPID.Put(pid, group{execed: time})
	}
}

// alive records that the group still ran at a time: threads that had ended by then did so by
// themselves.
func (g *groups) alive(pid uint32, time uint64) {
	if e, ok := g.byPID.In[pid]; ok {
		e.aliveAt, e.endings, e.probed = time, groupstatus.Endings{}, false
		e.unseen = e.unseen && e.leaderDone && !g.last6
		g.byPID.Put(pid, e)
	}
}

// end is the meaning of an exit message for its group.
type end struct {
	group  bool   // the group has ended with it
	time   uint64 // of the end: a thread can be delayed between stamping and sending a message
	status int32  // of the group
	known  bool   // status is certain
	probe  bool   // check whether the group still runs
	dumper uint32 // the thread that dumped core, 0 if unknown
	unseen bool   // /proc has to confirm the end
}

// exit accounts for the exit of a thread.
func (g *groups) exit(m *message) end {
	e, ok := g.byPID.In[m.pid]
	alone := end{group: m.tid == m.pid, time: m.time, status: int32(m.status), known: true}
	switch leader := m.tid == m.pid; {
	case m.former:
		return end{}
	case !ok:
		return alone
	case leader && m.time < e.execed:
		return end{} // a former leader
	case leader && e.leaderTold:
		// A thread took the leader's number, and was killed in the exec.
		alone.unseen = e.unseen // or it is of a former leader, and the exec is lost
		return alone
	case leader:
		e.leaderDone, e.leaderTold, e.leader = true, true, int32(m.status)
	case g.threads.In[m.tid] == m.pid:
		delete(g.threads.In, m.tid)
		e.live--
	case !e.unseen || !e.leaderDone || e.live > 0: // else /proc may have left it out
		return end{}
	}
	e.last = max(e.last, m.time)
	if m.time > e.aliveAt {
		e.endings.Add(m.tid, int32(m.status))
	}
	if e.live > 0 || !e.leaderDone {
		probe := !e.probed
		e.probed = true
		g.byPID.Put(m.pid, e)
		return end{probe: probe}
	}
	status, known := e.endings.Verdict(e.leader, g.last6)
	g.byPID.Put(m.pid, e)
	return end{
		group: true, time: e.last, status: status, dumper: e.endings.Dumper,
		// A leader that /proc showed to have ended may be one that a thread replaces.
		// Threads that end while they are listed can hide others.
		unseen: e.unseen || !e.leaderTold,
		known:  known && (!e.unseen || groupstatus.Certain(status)),
	}
}
