package engine

import (
	"iter"
	"slices"

	"github.com/quark-linux/quark/internal/freelist"
)

// table is the process table. For each pid it has a chain of processes, the youngest first: the
// live process, and exited processes during their grace time.
type table struct {
	byPID pidMap[process]
	count int
	grace uint64 // ns
	clock *Clock

	// exits holds exited processes, from firstExit on, in the order in which their ends were
	// applied. All have the same grace time, so only the first is checked. A joined end can be
	// later than the next ends, and delays at most as many as the buffer holds.
	exits     []exit
	firstExit int
	collected uint64

	missing []missing // in the order of their checks
	orphans orphans

	store
	shows

	late *process // of the last event, if the event came late
	view process  // state for the last event that has not the state of its process

	usage Usage    // of the process that ended last
	used  *process // this process, until the next event

	reports
	gapTo    uint64     // end of the latest gap, 0 if there was none
	learned  []*process // learned processes whose entry leaders are not settled
	checkPID func(pid uint32) (start uint64, state PIDState)
	judge    func(*Event) Verdict // nil for none
	tags     []string             // of Options
}

// store has the parts of processes: free ones, and equal ones that processes share.
type store struct {
	free     freelist.List[process]
	images   freelist.List[image]
	contexts equals[context]
	files    equals[file]
	names    interner
	changed  context // see change
	executed file    // see updateImage
}

// shows has the processes as callers see them; see show.
type shows struct {
	judged Process
	views  []*Process // the views of shown, then free ones
	shown  []*process
}

// reports describes the events of a table's source.
type reports struct {
	unseen  Fields // fields that can change without an event of the source
	births  bool   // it reports every FORK
	ends    bool   // it reports every EXIT
	cgroups bool   // it reports cgroups
}

// exit is the exit of a process whose grace time runs.
type exit struct {
	p    *process
	time uint64 // the time of the end
	at   uint64 // when the end was applied
}

// lookup returns the youngest process of a pid, or nil.
func (t *table) lookup(pid uint32) *process {
	t.settleEntries()
	p := t.byPID.get(pid)
	if p != nil {
		t.refresh(p)
	}
	return p
}

func (t *table) lookupIdentity(id Identity) *process {
	t.settleEntries()
	for p := t.byPID.get(id.PID); p != nil; p = p.older {
		if p.Known.Has(FieldStart) && p.sameStart(id.Start, 1) {
			t.refresh(p)
			return p
		}
	}
	return nil
}

// all yields every process in order of pid, the older before the younger.
func (t *table) all() iter.Seq[*Process] {
	return func(yield func(*Process) bool) {
		t.settleEntries()
		for _, pid := range slices.Sorted(t.byPID.pids()) {
			p := t.byPID.get(pid)
			for p.older != nil {
				p = p.older
			}
			for ; p != nil; p = p.younger {
				t.refresh(p)
				if !yield(t.show(p)) {
					return
				}
			}
		}
	}
}

// at returns the process that had the pid at a time, or nil if that is unknown.
func (t *table) at(pid uint32, time uint64) *process {
	for p := t.byPID.get(pid); p != nil; p = p.older {
		if p.born <= time {
			t.refresh(p)
			return p
		}
	}
	return nil
}

// add adds a process, the youngest of its pid.
func (t *table) add(pid uint32, born uint64) *process {
	t.count++
	youngest := t.byPID.place(pid)
	p := t.free.Get()
	*p = process{} // a full literal would be built elsewhere and copied
	p.PID, p.born, p.context, p.image, p.older = pid, born, &noContext, &noImage, *youngest
	if p.older != nil {
		p.born = max(p.born, p.older.born)
		p.older.younger = p
	}
	*youngest = p
	return p
}

// end starts the grace time of p, whose latest possible end is time.
func (t *table) end(p *process, by life, time, now uint64) {
	if before := p.life; before != living {
		p.life = max(before, by)
		return
	}
	p.life = by
	if len(t.exits) == cap(t.exits) && 2*t.firstExit > len(t.exits) {
		live := copy(t.exits, t.exits[t.firstExit:])
		clear(t.exits[live:])
		t.exits, t.firstExit = t.exits[:live], 0
	}
	t.exits = append(t.exits, exit{p, min(time, now), now})
}

// endedBy stores the latest possible end of p if its exit status is unknown.
func (p *process) endedBy(time uint64) {
	if !p.Known.Has(FieldExit) {
		p.exit.Time = time
	}
}

// revive undoes the inferred end of p, because p has an event. Guessed processes since this end are
// p itself, and are removed.
func (t *table) revive(p *process) {
	if p.life == living || p.life == ended {
		return
	}
	for q := p.younger; q != nil && q.guessed(); q = p.younger {
		p.Marks.add(Marks{Set: q.Marks.Set})
		t.cancelExit(q)
		t.remove(q)
	}
	if p.younger == nil {
		t.cancelExit(p)
		p.Cached |= p.Known &^ constant
	}
}

// cancelExit undoes end.
func (t *table) cancelExit(p *process) {
	if p.life == living {
		return
	}
	i := t.firstExit + slices.IndexFunc(t.exits[t.firstExit:], func(e exit) bool { return e.p == p })
	t.exits = slices.Delete(t.exits, i, i+1)
	p.life = living
	p.endedBy(0)
}

// collect removes processes whose grace time is over both at now and at reached, the time of the
// delivered events. If delivery is slow, all events of a process can be joined and delivered long
// before the FORKs of its children.
func (t *table) collect(now, reached uint64) {
	over := func(since, at uint64) bool { return at >= since && at-since >= t.grace }
	for ; t.firstExit < len(t.exits); t.firstExit++ {
		if e := t.exits[t.firstExit]; !over(e.at, now) || !over(e.time, reached) || e.p.life == replaced {
			return
		}
		t.remove(t.exits[t.firstExit].p)
		t.exits[t.firstExit].p = nil
		t.collected++
	}
}

// remove removes p from the table, and keeps its memory for add.
func (t *table) remove(p *process) {
	t.unlink(p)
	t.release(p)
	p.older, p.life = nil, ended // so that missing does not wait for it
	t.free.Put(p)
}

// trim releases memory that was not needed since the last call.
func (t *table) trim() {
	t.byPID.trim()
	t.images.Trim()
	t.free.Trim()
	if live := t.exits[t.firstExit:]; cap(t.exits) > 64 && 4*len(live) < cap(t.exits) {
		t.exits, t.firstExit = slices.Clone(live), 0
	}
}

func (t *table) unlink(p *process) {
	t.count--
	if p.older != nil {
		p.older.younger = p.younger
	}
	switch {
	case p.younger != nil:
		p.younger.older = p.older
	case p.older != nil:
		*t.byPID.place(p.PID) = p.older
	default:
		t.byPID.delete(p.PID)
	}
}
