package truth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// Life is one process from its fork to its end.
type Life struct {
	PID     int
	Creator *Life    `json:"-"` // whose state it began with; nil if that is not recorded
	Was     *State   `json:"-"` // before its first event; nil if that is not recorded
	Events  []*Event // in order: a fork first, the exit last
	// Threads are those that were started, without the leader. With OpenThreads there
	// were others too.
	Threads     []*Thread
	OpenThreads bool
	ByThread    bool // it was to end by exit(2): see Record

	// Used is what it had used at some time before its end, nil if that is not told.
	Used *Used
}

// Thread is one that a process started. The stamps of its birth and of its end are
// between the two times of each.
type Thread struct {
	TID                                int
	Born, BornLatest, Left, LeftLatest uint64
}

// Event is one thing that happened in a life.
type Event struct {
	Life             *Life `json:"-"`
	Kind             engine.Kind
	ID               engine.IDChange
	Tracer           int
	Status           int32
	Failed           Failed
	Used             *Used // of an exit, see Record
	Optional, Compat bool
	Unchanged        bool
	Earliest, Latest uint64

	// Read is set if the process stood still after it until all queues had been read,
	// so that /proc could show everything.
	Read bool
	// MayCut are fields that need not be reported whole.
	MayCut engine.Fields
	// Unreachable are paths that can't be reached from the process's root: none is right.
	Unreachable engine.Fields

	// State is what the process was right after it. Inside is what it saw itself,
	// where that differs. Drift are looks at it before its next event.
	State, Inside State
	Drift         []Look
}

// Look is what a process was at a time.
type Look struct {
	At    uint64
	State State
}

// Before reports whether e is known to have happened before o: by the clock, or
// because one process did first the one and then the other.
func (e *Event) Before(o *Event) bool {
	if e.Life == o.Life {
		return slices.Index(e.Life.Events, e) < slices.Index(o.Life.Events, o)
	}
	return e.Latest < o.Earliest
}

// Born is when the process was forked at the earliest.
func (l *Life) Born() uint64 { return l.Events[0].Earliest }

// Ended is when the process had ended at the latest.
func (l *Life) Ended() uint64 { return l.Events[len(l.Events)-1].Latest }

var kinds = map[Op]engine.Kind{
	Fork: engine.KindFork, Exec: engine.KindExec, Exit: engine.KindExit, IDs: engine.KindIDChange,
	Comm: engine.KindComm, Ptrace: engine.KindPtrace, Core: engine.KindCoreDump,
	ExecFailed: engine.KindExecFailed,
}

// rank puts a fork first and an exit last.
func (r *Record) rank() int {
	switch r.Op {
	case Fork:
		return -1
	case Exit:
		return 1
	}
	return 0
}

// Assemble makes lives of records in any order. Creators come before what they
// have created, so that all of a scenario is given at once. The error names a
// record that fits nowhere.
func Assemble(records []Record) ([]*Life, error) {
	var forks []*Record
	for i := range records {
		if records[i].Op == Fork {
			forks = append(forks, &records[i])
		}
	}
	slices.SortFunc(forks, func(a, b *Record) int { return cmp.Compare(a.Earliest, b.Earliest) })
	byPID := make(map[int][]*Record) // a pid can be of several lives, one after the other
	for _, f := range forks {
		byPID[f.PID] = append(byPID[f.PID], f)
	}
	members := make(map[*Record][]*Record)
	for i := range records {
		r := &records[i]
		switch r.Op {
		case Skip, Fail, Next:
			continue
		}
		var own *Record
		for _, f := range byPID[r.PID] {
			if f.Earliest <= r.Latest {
				own = f
			}
		}
		if own == nil {
			return nil, fmt.Errorf("%s of process %d, of which no fork is recorded", r.Op, r.PID)
		}
		members[own] = append(members[own], r)
	}
	a := assembler{lives: make(map[int][]*Life)}
	for _, f := range forks {
		if err := a.add(members[f]); err != nil {
			return nil, err
		}
	}
	return a.all, nil
}

type assembler struct {
	lives map[int][]*Life
	all   []*Life
}

// add makes a life of the records of one process.
func (a *assembler) add(list []*Record) error {
	slices.SortStableFunc(list, func(x, y *Record) int {
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(x.Latest, y.Latest))
	})
	l := &Life{PID: list[0].PID}
	var now, inside State
	var mayCut, unreachable, opened engine.Fields // opened: since the last event
	last := list[0].Earliest
	for i, r := range list {
		before := now
		if r.Op == Fork && i > 0 || r.Op == Exit && i < len(list)-1 {
			return fmt.Errorf("process %d: two records of a %s", l.PID, r.Op)
		}
		l.OpenThreads = l.OpenThreads || r.OpenThreads
		l.ByThread = l.ByThread || r.ByThread
		switch r.Op {
		case Read:
			if n := len(l.Events); n > 0 {
				l.Events[n-1].Read = true
			}
			continue
		case Shown:
			if n := len(l.Events); n > 0 {
				shown := now
				shown.Overlay(&r.State)
				l.Events[n-1].Drift = append(l.Events[n-1].Drift, Look{r.Latest, shown}, Look{r.Latest, now})
			}
			continue
		case HasUsed:
			l.Used = r.Used
			last = max(last, r.bound())
			continue
		case ThreadStart, ThreadEnd:
			if err := l.thread(r); err != nil {
				return err
			}
			continue
		}
		change(&now, r)
		mayCut |= r.MayCut
		unreachable = unreachable&^r.Open | r.Unreachable
		if r.Op == Fork {
			l.Creator = a.inherit(&now, &inside, r)
		}
		if r.Op == Exec {
			inside = State{}
		}
		now.Overlay(&r.State)
		inside.Overlay(&r.Inside)
		if r.Op == Now {
			if n := len(l.Events); n > 0 {
				// What a look from outside adds to the event before is of it, too.
				e := l.Events[n-1]
				opened |= r.Open
				// Its parent may have ended since.
				if r.State.Value[engine.FieldExitSignal] == sigchld {
					opened |= engine.FieldExitSignal.Set()
				}
				e.complete(&r.State, &r.Inside, e.State.Told|opened)
				e.Drift = append(e.Drift, Look{r.Latest, now})
			}
			last = max(last, r.bound())
			continue
		}
		if r.Op == Exec {
			changed, reset := changedByExec(&before, &now), r.ID
			if l.mayHaveFileIDs() {
				reset |= engine.ChangedUID
			}
			for _, id := range []engine.IDChange{engine.ChangedUID, engine.ChangedGID} {
				if (changed|reset)&id != 0 {
					l.Events = append(l.Events, &Event{
						Life: l, Kind: engine.KindIDChange, ID: id, Optional: true, Unchanged: changed&id == 0 && !r.Optional,
						Earliest: max(r.Earliest, last), Latest: r.Latest, State: duringExec(before, &now),
					})
				}
			}
		}
		e := &Event{
			Life: l, Kind: kinds[r.Op], ID: r.ID, Tracer: r.Tracer, Status: r.Status, Used: r.Used, Failed: r.Failed, Optional: r.Optional, Compat: r.Compat, Unchanged: r.Unchanged,
			Earliest: max(r.Earliest, last), Latest: r.Latest, State: now, Inside: inside, MayCut: mayCut,
			Unreachable: unreachable,
		}
		if r.Op == Exec {
			e.ID = 0
		}
		last, opened = max(last, r.bound()), 0
		l.Events = append(l.Events, e)
	}
	a.lives[l.PID] = append(a.lives[l.PID], l)
	a.all = append(a.all, l)
	return nil
}

// changedByExec returns which ids an exec has changed: those of a set-id program, and
// saved ids, which become the effective ones. A source may report such a change as an
// event of its own, before the EXEC: the kernel reports user ids first.
func changedByExec(before, after *State) (changed engine.IDChange) {
	for _, c := range []struct {
		id     engine.IDChange
		fields []engine.Field
	}{
		{engine.ChangedUID, []engine.Field{engine.FieldUIDs, engine.FieldSUID}},
		{engine.ChangedGID, []engine.Field{engine.FieldGIDs, engine.FieldSGID}},
	} {
		if slices.ContainsFunc(c.fields, func(f engine.Field) bool {
			// What is not told may have changed.
			return before.Told.Has(f) && before.Value[f] != after.Value[f]
		}) {
			changed |= c.id
		}
	}
	return changed
}

// mayHaveFileIDs reports whether the process, or whom it has its ids from, may have set the user id
// of file access alone. An exec sets it back to the effective one.
func (l *Life) mayHaveFileIDs() bool {
	for until := Forever; l != nil; l, until = l.Creator, l.Events[0].Latest {
		for _, e := range slices.Backward(l.Events) {
			switch {
			case e.Earliest > until || e.Optional && !e.Unchanged:
			case e.Kind == engine.KindExec:
				return false
			case e.ID == engine.ChangedUID:
				return e.Unchanged
			}
		}
	}
	return false
}

// duringExec is what is known of a process when an exec has changed its ids: the new
// ids, and nothing of what else an exec changes.
func duringExec(before State, after *State) State {
	ids := *after
	ids.Untell(^engine.FieldsIDs)
	before.Untell(engine.SetOf(engine.FieldComm, engine.FieldFilename, engine.FieldExecutable, engine.FieldExecPath,
		engine.FieldCmdline, engine.FieldEnviron, engine.FieldCaps, engine.FieldPrivileges))
	before.Untell(engine.FieldsIDs)
	before.Overlay(&ids)
	return before
}

// thread adds the birth or the end of a thread.
func (l *Life) thread(r *Record) error {
	for _, t := range l.Threads {
		if t.TID == r.TID && r.Op == ThreadEnd {
			t.Left, t.LeftLatest = max(r.Earliest, t.Born), r.Latest
			return nil
		}
	}
	if r.Op == ThreadEnd {
		return fmt.Errorf("process %d: the end of thread %d, of which no start is recorded", l.PID, r.TID)
	}
	l.Threads = append(l.Threads, &Thread{TID: r.TID, Born: r.Earliest, BornLatest: r.Latest})
	return nil
}

// bound is a time that everything the process does later is later than.
func (r *Record) bound() uint64 {
	if r.Own {
		return r.Latest
	}
	return r.Earliest
}

// complete takes over what is in s and not told of the event.
func (e *Event) complete(s, inside *State, told engine.Fields) {
	missing := *s
	missing.Untell(told)
	e.State.Overlay(&missing)
	e.Inside.Overlay(inside)
}

// change takes away what an event leaves open unless its record tells.
func change(now *State, r *Record) {
	switch r.Op {
	case Exec:
		_, euid, uids := cut(now.Value[engine.FieldUIDs])
		_, egid, gids := cut(now.Value[engine.FieldGIDs])
		now.Untell(engine.SetOf(engine.FieldComm, engine.FieldFilename, engine.FieldExecutable, engine.FieldExecPath, engine.FieldCmdline, engine.FieldEnviron, engine.FieldPrivileges,
			engine.FieldSUID, engine.FieldSGID, engine.FieldCaps))
		if now.Told.Has(engine.FieldExitSignal) {
			now.Set(engine.FieldExitSignal, sigchld)
		}
		// An exec saves the effective ids.
		if uids {
			now.Set(engine.FieldSUID, euid)
		}
		if gids {
			now.Set(engine.FieldSGID, egid)
		}
	case IDs:
		now.Untell(engine.FieldCaps.Set())
	}
	now.Untell(r.Open)
}

const sigchld = "17"

func cut(pair string) (real, effective string, ok bool) {
	n, err := fmt.Sscan(pair, &real, &effective)
	return real, effective, err == nil && n == 2
}

// inherit gives a new process what its creator was, and returns the creator.
func (a *assembler) inherit(now, inside *State, r *Record) (creator *Life) {
	for _, c := range slices.Backward(a.lives[r.Creator]) {
		if c.Born() > r.Earliest {
			continue
		}
		creator = c
		if was := c.at(r.Latest); was != nil {
			*now = was.State
			*inside = was.Inside
			for _, d := range was.Drift {
				if d.At <= r.Earliest {
					*now = d.State
				}
			}
		}
		now.Untell(c.unsettled(r.Earliest, r.Latest))
		break
	}
	fresh := r.Fresh | engine.SetOf(engine.FieldStart, engine.FieldPPID, engine.FieldParentTID, engine.FieldPrivileges)
	if r.Parent == r.Creator || now.Value[engine.FieldExitSignal] != sigchld {
		// With CLONE_PARENT it is the creator's, which the end of a parent makes SIGCHLD.
		fresh = fresh.With(engine.FieldExitSignal)
	}
	now.Untell(fresh)
	// In the initial pid namespace, which has this number, pids are those of the records.
	if ns, _, _ := strings.Cut(now.Value[engine.FieldPIDNS], " "); ns == "4026531836" {
		now.Set(engine.FieldPIDNS, ns+" "+strconv.Itoa(r.PID))
	} else {
		now.Untell(engine.FieldPIDNS.Set())
	}
	if r.Parent != 0 {
		now.Set(engine.FieldPPID, strconv.Itoa(r.Parent))
	}
	return creator
}

// unsettled returns the fields that events change which may have happened before or after what
// happened between two times: another thread executes while this one forks.
func (l *Life) unsettled(earliest, latest uint64) (fields engine.Fields) {
	for i, e := range l.Events {
		if i == 0 || e.Latest < earliest || e.Earliest > latest {
			continue
		}
		before := &l.Events[i-1].State
		for f := range engine.Field(engine.NumFields) {
			if before.Told.Has(f) != e.State.Told.Has(f) || before.Value[f] != e.State.Value[f] {
				fields |= f.Set()
			}
		}
	}
	return fields
}

// at is the last event of l that had begun at a time.
func (l *Life) at(t uint64) (last *Event) {
	for _, e := range l.Events {
		if e.Earliest <= t {
			last = e
		}
	}
	return last
}

// Forever is a Latest without bound.
const Forever = uint64(math.MaxUint64)
