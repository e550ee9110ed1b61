package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
)

// rescanInterval, in ns, is how often a loss lets the tracker look through /proc at most.
const rescanInterval = 100_000_000

// learn looks up in /proc which processes have threads: at the start, and when messages
// were lost. What is in the socket is older than what /proc says, which does no harm to
// the set of threads, see groups. A process that was born since the loss is not looked at: the
// messages tell of all its threads, and that another took the leader's place can still be to come.
func (t *tracker) learn() {
	began := t.clock.now()
	defer func() { t.loss.look(t.clock.now()) }()
	g := &t.groups
	for pid, e := range g.byPID.In {
		if t.living.has(pid) {
			continue
		}
		e.unseen = true
		if e.over == 0 {
			e.over = began
		}
		g.byPID.Put(pid, e)
	}
	if t.view == nil {
		return
	}
	pids, err := t.view.PIDs()
	if err != nil {
		return
	}
	t.loss.rescan = false
	for _, pid := range pids {
		if !t.living.has(pid) {
			t.living.seen.set(pid, true)
		}
	}
	// Tasks uses the storage of PIDs again, so first all leaders, then threads.
	threaded := map[uint32]procfs.Status{}
	for _, pid := range pids {
		if _, known := g.byPID.In[pid]; t.living.has(pid) || !known && t.view.Threads(pid) <= 1 {
			continue
		}
		st, _, err := t.view.Status(pid)
		switch {
		case err != nil:
		case st.Threads > 1:
			threaded[pid] = st
		case !st.Zombie():
			g.forget(pid) // its only thread decides how it ends
		}
	}
	for tid, pid := range g.threads.In {
		if _, ok := threaded[pid]; ok {
			g.remove(pid, tid)
		}
	}
	for pid, st := range threaded {
		t.learnGroup(pid, st, began)
	}
}

func (t *tracker) learnGroup(pid uint32, st procfs.Status, began uint64) {
	g := &t.groups
	for _, tid := range t.view.Tasks(pid) {
		g.add(pid, tid)
	}
	e, ok := g.byPID.In[pid]
	if !ok {
		return
	}
	if e.leaderTold && !st.Zombie() {
		e = group{live: e.live} // another thread has replaced that leader
	}
	// A leader that has ended can also be one that another thread is about to replace by
	// an exec. Its exit may not have been seen, nor may those of other threads.
	e.over, e.unseen = 0, true
	e.confirm, e.leaderDone = e.confirm || st.Zombie(), e.leaderDone || st.Zombie()
	if e.live == 0 && e.leaderDone {
		e.over = began // the last thread has left since st was read
	}
	runs := st.State == 'S' && !st.Ending // see groupstatus.Runs
	if !runs && !e.probed {
		e.probed = true
		t.probes = append(t.probes, probe{pid: pid})
	}
	g.byPID.Put(pid, e)
	if runs {
		g.alive(pid, began)
	}
}

// confirm lets /proc say whether a group has ended. Even where it has, the message can be that of a
// former leader: a loss has hidden the exec, and the process has ended before the look. The message
// of one of the two follows then, so that the end is unsure.
func (t *tracker) confirm(m *message, e end) end {
	if t.view == nil {
		t.groups.forget(m.pid)
		return e
	}
	e.unsure = true
	st, start, err := t.view.Status(m.pid)
	switch {
	case err != nil, !t.clock.StartedBy(start, m.time), st.Over():
		// Gone, and perhaps there is a new one already; or waiting for its parent.
		t.groups.forget(m.pid)
		return e
	case !st.Zombie():
		// It was the former leader, and another thread has its number now; or another
		// process has it, which may have been born in the same tick, or before the message
		// was made.
		t.groups.forget(m.pid)
		return end{lost: m.reaped() || !t.clock.StartedBefore(start, m.time)}
	}
	for _, tid := range t.view.Tasks(m.pid) {
		t.groups.add(m.pid, tid)
	}
	g := t.groups.byPID.In[m.pid]
	if g.live == 0 { // ended meanwhile
		delete(t.groups.byPID.In, m.pid)
		return e
	}
	if m.tid == m.pid && g.endings.N == 0 {
		g.leader = int32(m.status)
		g.endings.Add(m.tid, g.leader)
	}
	g.leaderDone, g.leaderTold, g.confirm = true, g.leaderTold || m.tid == m.pid, true
	t.groups.byPID.Put(m.pid, g)
	return end{}
}

// probe is a group of which threads have ended: was that their own will, or does the
// whole group end? What was seen to run afterwards tells.
type probe struct {
	pid   uint32
	after uint64 // time of the next look
	wait  uint64 // ns from this look to the next
}

// A look at a group costs a few microseconds. Groups that let threads end all the time are
// looked at once in a while.
const (
	probeFirst = 1_000_000
	probeLast  = 1_000_000_000
)

// later puts off the next look, and returns when it is.
func (p *probe) later(now uint64) uint64 {
	p.wait = min(max(2*p.wait, probeFirst), probeLast)
	p.after = now + p.wait
	return p.after
}

// look looks at the groups of which threads have ended and returns when to look again, 0
// for not at all.
func (t *tracker) look() (next uint64) {
	if len(t.doubts) > 0 {
		next = t.doubts[0].now + doubtWait + 1
	}
	if len(t.probes) == 0 {
		return next
	}
	kept := t.probes[:0]
	for _, p := range t.probes {
		g, ok := t.groups.byPID.In[p.pid]
		if !ok || t.view == nil {
			continue
		}
		now := t.clock.now()
		if now < p.after {
			kept = append(kept, p)
			next = soonest(next, p.after)
			continue
		}
		switch alive, ending := groupstatus.Runs(t.view, p.pid, g.leaderDone); {
		case alive:
			t.groups.alive(p.pid, now)
		case ending:
			// It may be over before there is more to see; else the next end of a thread
			// is the time for another look.
			g.probed = false
			t.groups.byPID.Put(p.pid, g)
		default:
			next = soonest(next, p.later(now))
			kept = append(kept, p)
		}
	}
	t.probes = kept
	return next
}

// soonest returns the earlier of two times, of which 0 is never.
func soonest(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
