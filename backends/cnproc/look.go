package cnproc

import (
	"slices"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/procfs"
)

// rescanInterval is the shortest time, in ns, between two looks through /proc after losses.
const rescanInterval = 100_000_000

// view is the tracker's access to /proc: a [procfs.Reader].
type view interface {
	PIDs() ([]uint32, error)
	Tasks(pid uint32) []uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

// learn reads the existing processes and their threads from /proc, at the start and after a loss.
// The messages in the socket are older, which does no harm to the set of threads, see groups. learn
// skips a process that was born since the loss: the messages show all of it.
func (t *tracker) learn() {
	var pids []uint32
	if t.view != nil {
		var err error
		pids, err = t.view.PIDs()
		t.loss.rescan = err != nil
	}
	for _, pid := range slices.Clone(pids) {
		if p, ok := t.processes.In[pid]; !ok || p.epoch != t.epoch || p.unseen {
			t.learnProcess(pid)
		}
	}
	for pid, p := range t.processes.In {
		if p.epoch != t.epoch && !p.over {
			delete(t.processes.In, pid)
		}
	}
	for pid := range t.groups.byPID.In {
		if _, ok := t.processes.In[pid]; !ok {
			t.groups.forget(pid)
		}
	}
	t.loss.look(t.clock.now())
}

func (t *tracker) learnProcess(pid uint32) {
	began := t.clock.now()
	st, _, err := t.view.Status(pid)
	if err != nil || st.Over() {
		return // its exit message may be still to come
	}
	told := t.groups.byPID.In[pid].leaderTold && st.Zombie()
	t.forget(pid)
	if st.Threads > 1 {
		for _, tid := range t.view.Tasks(pid) {
			t.groups.add(pid, tid)
			if t.workers && t.epoch == 0 { // later it would cost much
				t.born = append(t.born, thread{pid, tid})
			}
		}
	}
	if g, ok := t.groups.byPID.In[pid]; ok {
		g.leaderDone, g.leaderTold, g.unseen = st.Zombie(), told, true
		runs := st.State == 'S' && !st.Ending // see groupstatus.Runs
		if g.probed = !runs; g.probed {
			t.probes = append(t.probes, probe{pid: pid})
		}
		if t.groups.byPID.Put(pid, g); runs {
			t.groups.alive(pid, began)
		}
	} else if st.Zombie() {
		return // the last thread has left since
	}
	t.processes.Put(pid, process{born: began, late: true, zombie: st.Zombie(), epoch: t.epoch, doubt: began + maxStraggle})
}

// probe is a group with ended threads: did they end by themselves, or does the whole group end? A
// thread that still runs afterwards decides.
type probe struct {
	pid   uint32
	after uint64 // time of the next look
	wait  uint64 // ns from this look to the next
}

// A look at a group costs a few microseconds. Groups that end threads all the time are looked at in
// growing intervals.
const (
	probeFirst = 1_000_000
	probeLast  = 1_000_000_000
)

// later postpones the next look, and returns its time.
func (p *probe) later(now uint64) uint64 {
	p.wait = min(max(2*p.wait, probeFirst), probeLast)
	p.after = now + p.wait
	return p.after
}

// look looks at the groups with ended threads. It returns when to look again, 0 for never.
func (t *tracker) look() (next uint64) {
	for _, b := range t.born {
		if st, _, err := t.view.ThreadStatus(b.pid, b.tid); err == nil && st.Worker && t.groups.threads.In[b.tid] == b.pid {
			// Its end is unrelated to the end of the group.
			t.groups.remove(b.pid, b.tid)
		}
	}
	t.born = t.born[:0]
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

// soonest returns the earlier of two times. 0 means never.
func soonest(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
