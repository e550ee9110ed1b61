package taskstats

import (
	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/internal/stock"
)

// groups tells the wait status of processes that had several threads. It keeps what the threads of
// a process have ended with, until the last one ends, or until a look at /proc shows that the
// process runs: then those that had ended did so by themselves, and say nothing of its status.
//
// What a look shows is of that process, and not of a later one of its pid, if all records of
// before the look were received afterwards and none is of its last thread.
//
// The record of the last thread need not be the last one: each CPU has its socket, and a thread
// that began to end before can send later. So its process waits in overs until the others are gone
// from /proc, which they leave after they have sent.
type groups struct {
	view   groupstatus.View // nil without /proc: there are no looks
	last6  bool             // the status is of the last thread to begin to end: Linux 6.0
	byPID  stock.Map[uint32, group]
	looks  []look
	seen   []sight // what the latest looks have shown to run
	overs  []over
	looked uint64 // when it was looked at overs
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
	overs   int                 // ends that wait, of several processes if more than 1
	torn    bool                // of which process of the pid threads' records are is not known
	left    uint64              // torn: when an end was told, with a record still to come
}

// over is a process of several threads whose last thread's record has come.
type over struct {
	r     taskrecord.Record
	cpu   uint32
	at    uint64 // when it came
	born  uint64 // a time after which the process was born
	whole bool   // all records of its threads were sent
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

	// overLongest bounds how long an end is kept back for other threads' records. The engine
	// reads for longer than that at an orderly end.
	overLongest = 50_000_000
)

// thread notes the end of a thread that was not the last one.
func (g *groups) thread(r *taskrecord.Record) {
	e := g.byPID.In[r.TGID]
	if e.torn {
		return
	}
	e.add(r)
	if !e.looking && e.overs == 0 {
		e.looking = true
		g.looks = append(g.looks, look{pid: r.TGID})
	}
	g.byPID.Put(r.TGID, e)
}

func (e *group) add(r *taskrecord.Record) {
	e.endings.Add(r.PID, r.Status)
	e.fresh.Add(r.PID, r.Status)
	if r.PID == r.TGID {
		e.leader, e.done = r.Status, true
	}
}

// last notes the end of a process of several threads.
func (g *groups) last(o over) {
	e := g.byPID.In[o.r.TGID]
	e.overs++
	e.torn = e.torn || e.overs > 1
	g.byPID.Put(o.r.TGID, e)
	g.overs = append(g.overs, o)
}

// lookOvers looks which of the processes that are over are to be settled once all records were
// received: they come first. It returns their number.
func (g *groups) lookOvers(now uint64) (n int) {
	g.looked = now
	for i := range g.overs {
		o := &g.overs[i]
		o.whole = groupstatus.Left(g.view, o.r.TGID, o.r.PID)
		if o.whole || now >= o.at+overLongest {
			g.overs[n], *o = *o, g.overs[n]
			n++
		}
	}
	return n
}

// settleOvers hands the first n of overs to end, with their wait statuses and whether these are
// certain.
func (g *groups) settleOvers(n int, end func(o *over, status int32, known bool)) {
	for i := range g.overs[:n] {
		o := &g.overs[i]
		status, known := g.status(o)
		end(o, status, known)
	}
	g.overs = g.overs[:copy(g.overs, g.overs[n:])]
}

// status returns the wait status of a process that is over, and forgets its threads.
func (g *groups) status(o *over) (status int32, known bool) {
	e := g.byPID.In[o.r.TGID]
	e.overs--
	switch {
	case !o.whole: // what is still to come must not be taken for the next process of the pid
		e.torn, e.left = true, g.looked
		fallthrough
	case e.overs > 0:
		g.byPID.Put(o.r.TGID, e)
	default:
		delete(g.byPID.In, o.r.TGID)
	}
	if e.torn {
		return o.r.Status, groupstatus.Certain(o.r.Status)
	}
	e.add(&o.r)
	status, known = e.endings.Verdict(e.leader, g.last6)
	if max(o.born, e.alive) <= g.blind && !groupstatus.Certain(status) {
		known = false // with another thread's status, which is missing
	}
	return status, known
}

// trim forgets the pids of which a thread's record was to come and does not come any more, and lets
// go of memory that was not needed since the last call.
func (g *groups) trim(now uint64) {
	for pid, e := range g.byPID.In {
		if e.torn && e.overs == 0 && now >= e.left+straggle && groupstatus.Left(g.view, pid, pid) {
			delete(g.byPID.In, pid)
		}
	}
	g.byPID.Trim()
	g.overs, g.looks, g.seen = stock.Fit(g.overs), stock.Fit(g.looks), stock.Fit(g.seen)
}

// lose notes that records were lost, at a time.
func (g *groups) lose(now uint64) {
	g.blind = now
	for pid, e := range g.byPID.In {
		if e.overs > 0 {
			g.byPID.Put(pid, group{overs: e.overs, torn: true})
		} else {
			delete(g.byPID.In, pid)
		}
	}
	g.looks = g.looks[:0]
}

// look looks at the processes that it is time for, and reports whether some were seen to run: then
// confirm is to be called once all records were received.
func (g *groups) look(now uint64) bool {
	kept := g.looks[:0]
	for _, l := range g.looks {
		e, ok := g.byPID.In[l.pid]
		switch {
		case !ok:
			continue
		case e.overs > 0:
			e.looking = false
			g.byPID.Put(l.pid, e)
			continue
		case now < l.after:
			kept = append(kept, l)
			continue
		}
		switch alive, ending := groupstatus.Runs(g.view, l.pid, e.done); {
		case alive:
			e.fresh, e.looking = groupstatus.Endings{}, false
			g.byPID.Put(l.pid, e)
			g.seen = append(g.seen, sight{l.pid, now})
		case ending: // the end of the next thread is the time for another look
			e.looking = false
			g.byPID.Put(l.pid, e)
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
		if e, ok := g.byPID.In[seen.pid]; ok && e.overs == 0 { // else its last has ended
			e.endings, e.alive = e.fresh, seen.at
			g.byPID.Put(seen.pid, e)
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
	if again := g.looked + lookFirst; len(g.overs) > 0 && (at == 0 || again < at) {
		at = again
	}
	return at
}
