package tracepoint

import "github.com/quark-linux/quark/internal/stock"

// groups tells the end of a process from that of a single thread where the kernel does not, before
// Linux 6.16. It knows the processes that have, or had, other threads than their leader; a process
// that it does not know has one thread. The records are given to it in the order of time.
type groups struct {
	byPID   stock.Map[uint32, *group]
	learned uint64 // when /proc showed the threads that there were, 0 for never
}

// group is a process that has, or had, other threads than its leader.
type group struct {
	threads    map[uint32]bool // that live, without the leader
	leaderDone bool
}

// learn replaces what is known by what /proc showed at a time: processes calls add for each thread
// that runs, and leads to processes whose leader has ended.
func (g *groups) learn(time uint64, processes func(add func(pid, tid uint32), leaderDone func(pid uint32))) {
	clear(g.byPID.In)
	g.learned = time
	processes(func(pid, tid uint32) {
		if pid != tid {
			g.of(pid).threads[tid] = true
		}
	}, func(pid uint32) { g.of(pid).leaderDone = true })
}

func (g *groups) of(pid uint32) *group {
	p := g.byPID.In[pid]
	if p == nil {
		p = &group{threads: make(map[uint32]bool)}
		g.byPID.Put(pid, p)
	}
	return p
}

// born notes a new process or thread. What is of before the look at /proc was in it, or has ended.
func (g *groups) born(pid, tid uint32, time uint64) {
	switch {
	case time <= g.learned:
	case pid == tid:
		delete(g.byPID.In, pid)
	default:
		g.of(pid).threads[tid] = true
	}
}

// executed notes an execve, which ends all other threads and makes the caller the leader.
func (g *groups) executed(pid uint32, time uint64) {
	if time > g.learned {
		delete(g.byPID.In, pid)
	}
}

// ended notes the end of a thread and reports whether the process ends with it.
func (g *groups) ended(pid, tid uint32) (over bool) {
	p := g.byPID.In[pid]
	switch {
	case p == nil:
		return pid == tid
	case pid == tid:
		p.leaderDone = true
	default: // it may be one that had begun to end at the look, and is not known
		delete(p.threads, tid)
	}
	if !p.leaderDone || len(p.threads) > 0 {
		return false
	}
	delete(g.byPID.In, pid)
	return true
}
