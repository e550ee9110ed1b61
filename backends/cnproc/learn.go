package cnproc

import "github.com/quark-linux/quark/engine"

// rescanInterval, in ns, is how often a loss lets us look through /proc at most.
const rescanInterval = 100_000_000

// learnThreads looks up in /proc which processes have threads: at open, and when
// messages were lost. What is in the queue is older than what /proc says, which
// does no harm to the set of threads, see groups.
func (s *Source) learnThreads() {
	s.rescan, s.rescanGaps, s.rescanTime = false, s.seq.gaps, s.enrich.clock.now()
	g := &s.groups
	for pid, e := range g.byPID {
		e.stale, e.gap = true, true
		g.byPID[pid] = e
	}
	if s.proc == nil {
		return
	}
	pids, err := s.proc.PIDs()
	if err != nil {
		return
	}
	// Tasks uses the storage of PIDs again, so first all leaders, then threads.
	zombie := map[uint32]bool{}
	for _, pid := range pids {
		st, _, err := s.proc.Status(pid)
		switch {
		case err != nil:
		case st.Threads > 1:
			zombie[pid] = st.Zombie()
		case !st.Zombie():
			// Its only thread decides how it ends, whatever others did before.
			g.forget(pid)
		}
	}
	for tid, pid := range g.threads {
		if _, ok := zombie[pid]; ok {
			g.remove(pid, tid)
		}
	}
	for pid, z := range zombie {
		for _, tid := range s.proc.Tasks(pid) {
			g.add(pid, tid)
		}
		e, ok := g.byPID[pid]
		if !ok {
			continue
		}
		e.stale = false
		// A leader that has ended can also be one that another thread is about
		// to replace by an exec. Its status may not have been seen.
		e.gap, e.doubt, e.leaderDone = z, e.doubt || z, e.leaderDone || z
		g.byPID[pid] = e
	}
}

// settleThreads drops the groups that were gone at the last look, now that
// nothing of them can be in the queue.
func (s *Source) settleThreads() {
	for pid, e := range s.groups.byPID {
		if e.stale {
			s.groups.forget(pid)
		}
	}
}

// askExit lets /proc confirm the end of a group.
func (s *Source) askExit(m *message, e end) end {
	if s.proc == nil {
		s.groups.forget(m.pid)
		return end{group: true}
	}
	st, start, err := s.proc.Status(m.pid)
	const tick = engine.ProcStartUnit
	switch {
	case err != nil, start/tick > s.enrich.clock.boot(m.time)/tick, st.Zombie() && st.Threads <= 1:
		// Gone, and perhaps there is a new one already; or waiting for its parent.
		s.groups.forget(m.pid)
		return e
	case !st.Zombie():
		// It was the former leader; another thread has its number now.
		s.groups.forget(m.pid)
		return end{}
	}
	for _, tid := range s.proc.Tasks(m.pid) {
		s.groups.add(m.pid, tid)
	}
	g := s.groups.byPID[m.pid]
	if g.live == 0 { // ended meanwhile
		delete(s.groups.byPID, m.pid)
		return e
	}
	if m.tid == m.pid && g.codes.n == 0 {
		g.codes.leader = int32(m.status)
		g.codes.add(m)
	}
	g.leaderDone, g.doubt = true, true
	s.groups.byPID[m.pid] = g
	return end{}
}
