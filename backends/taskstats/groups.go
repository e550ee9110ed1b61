package taskstats

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
)

// groups tells the wait status of processes that had several threads. It keeps what the threads of
// a process have ended with, until the last one ends, or until a look at /proc shows that the
// process runs: then those that had ended did so by themselves, and say nothing of its status.
//
// What a look shows is of that process, and not of a later one of its pid, if all records of
// before the look were received afterwards and none is of its last thread.
type groups struct {
	view  groupstatus.View // nil without /proc: there are no looks
	last6 bool             // the status is of the last thread to begin to end: Linux 6.0
	byPID map[uint32]group
	looks []look
	seen  []sight // what the latest looks have shown to run
	// blind is when records were last lost, or the source was opened: ends of threads of before
	// are missing.
	blind uint64
}

// group is a process of which threads have ended.
type group struct {
	endings groupstatus.Endings // since it was last seen to run
	fresh   groupstatus.Endings // since the latest look, which may not be confirmed yet
	leader  int32               // wait status of the leader, once it has ended
	done    bool                // the leader has ended
	looking bool                // there is a look to come
	alive   uint64              // when it was last seen to run, 0 for never
}

// look is a look to come.
type look struct {
	pid   uint32
	after uint64 // time of the next look
	wait  uint64 // ns from this look to the next
}

// sight is a process that was seen to run at a time.
type sight struct {
	pid uint32
	at  uint64
}

// A look costs some microseconds. Processes that let threads end all the time are looked at once in
// a while.
const (
	lookFirst = 1_000_000
	lookLast  = 1_000_000_000

	// straggle is more than the time from the beginning of a thread's record to its arrival.
	straggle = 1_000_000_000
)

// thread notes the end of a thread that was not the last one.
func (g *groups) thread(r *taskrecord.Record) {
	e := g.byPID[r.TGID]
	e.add(r)
	if !e.looking && g.view != nil {
		e.looking = true
		g.looks = append(g.looks, look{pid: r.TGID})
	}
	g.byPID[r.TGID] = e
}

func (e *group) add(r *taskrecord.Record) {
	e.endings.Add(r.PID, r.Status)
	e.fresh.Add(r.PID, r.Status)
	if r.PID == r.TGID {
		e.leader, e.done = r.Status, true
	}
}

// last returns the wait status of the process whose last thread r is of, and whether it is certain.
// born is a time after which the process was born.
func (g *groups) last(r *taskrecord.Record, born uint64) (status int32, known bool) {
	e, some := g.byPID[r.TGID]
	if some {
		delete(g.byPID, r.TGID)
	}
	if !r.Several { // no other thread has ever ended in it
		return r.Status, true
	}
	e.add(r)
	status, known = e.endings.Verdict(e.leader, g.last6)
	if max(born, e.alive) <= g.blind && !groupstatus.Certain(status) {
		known = false // with another thread's status, which is missing
	}
	return status, known
}

// lose notes that records were lost, at a time.
func (g *groups) lose(now uint64) {
	g.blind = now
	clear(g.byPID)
	g.looks = g.looks[:0]
}

// look looks at the processes that it is time for, and reports whether some were seen to run: then
// confirm is to be called once all records were received.
func (g *groups) look(now uint64) bool {
	kept := g.looks[:0]
	for _, l := range g.looks {
		e, ok := g.byPID[l.pid]
		switch {
		case !ok:
			continue
		case now < l.after:
			kept = append(kept, l)
			continue
		}
		switch alive, ending := groupstatus.Runs(g.view, l.pid, e.done); {
		case alive:
			e.fresh, e.looking = groupstatus.Endings{}, false
			g.byPID[l.pid] = e
			g.seen = append(g.seen, sight{l.pid, now})
		case ending: // the end of the next thread is the time for another look
			e.looking = false
			g.byPID[l.pid] = e
		default:
			l.wait = min(max(2*l.wait, lookFirst), lookLast)
			l.after = now + l.wait
			kept = append(kept, l)
		}
	}
	g.looks = kept
	return len(g.seen) > 0
}

// confirm says that all records of before the latest looks were received.
func (g *groups) confirm() {
	for _, seen := range g.seen {
		if e, ok := g.byPID[seen.pid]; ok { // else the last thread has ended
			e.endings, e.alive = e.fresh, seen.at
			g.byPID[seen.pid] = e
		}
	}
	g.seen = g.seen[:0]
}

// next returns the time of the next look, 0 for none.
func (g *groups) next() (at uint64) {
	for _, l := range g.looks {
		if at == 0 || l.after < at {
			at = max(l.after, 1)
		}
	}
	return at
}
