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

// Process is one process from its fork to its end.
type Process struct {
	PID     int
	Creator *Process `json:"-"` // passes on its state at the fork; nil if not recorded
	Was     *State   `json:"-"` // state before the first event; nil if not recorded
	Events  []*Event // in order, from fork to exit
	// Threads lists the recorded threads without the leader. If OpenThreads is set, there were
	// also unrecorded ones.
	Threads     []*Thread
	OpenThreads bool
	ByThread    bool // the process was made to end by exit(2): see Record

	// Used is the usage at some time before the end, nil if not recorded.
	Used *Used
}

// Thread is a thread that a process started. Its birth was stamped between Born and BornLatest, its
// end between Left and LeftLatest.
type Thread struct {
	TID                                int
	Born, BornLatest, Left, LeftLatest uint64
}

// Event is one event of a process.
type Event struct {
	Process          *Process `json:"-"`
	Kind             engine.Kind
	ID               engine.IDChange
	NS               NSChange
	Tracer           int
	Status           int32
	Failed           Failed
	Used             *Used // for an exit, see Record
	Optional, Compat bool
	Unchanged        bool
	Earliest, Latest uint64

	// Read is set if the process paused after the event until all queues had been read, so that
	// /proc showed all values.
	Read bool
	// MayCut are fields that may be reported truncated.
	MayCut engine.Fields
	// Unreachable are paths that are unreachable from the process's root: no value is right.
	Unreachable engine.Fields

	// State is the state right after the event. Inside is the process's own view where it
	// differs. Snapshots were taken before the next event.
	State, Inside State
	Snapshots     []Snapshot
}

// Snapshot is the state of a process at a time.
type Snapshot struct {
	At    uint64
	State State
}

// Before reports whether e certainly happened before o: by the clock, or by the order of events of
// one process.
func (e *Event) Before(o *Event) bool {
	if e.Process == o.Process {
		return slices.Index(e.Process.Events, e) < slices.Index(o.Process.Events, o)
	}
	return e.Latest < o.Earliest
}

// Born returns the earliest time of the fork.
func (l *Process) Born() uint64 { return l.Events[0].Earliest }

// Ended returns the latest time of the end.
func (l *Process) Ended() uint64 { return l.Events[len(l.Events)-1].Latest }

var kinds = map[Op]engine.Kind{
	Fork: engine.KindFork, Exec: engine.KindExec, Exit: engine.KindExit, IDs: engine.KindIDChange,
	Comm: engine.KindSetProcTitle, Ptrace: engine.KindPtrace, Core: engine.KindCoreDump,
	ExecFailed: engine.KindExecFailed, Cgroup: engine.KindCgroupChange, NS: engine.KindNSChange,
}

// rank sorts a fork first and an exit last.
func (r *Record) rank() int {
	switch r.Op {
	case Fork:
		return -1
	case Exit:
		return 1
	}
	return 0
}

// Assemble builds processes from records in any order. It needs all records of a scenario at once,
// as it builds creators first. The error names a record without a process.
func Assemble(records []Record) ([]*Process, error) {
	var forks []*Record
	for i := range records {
		if records[i].Op == Fork {
			forks = append(forks, &records[i])
		}
	}
	slices.SortFunc(forks, func(a, b *Record) int { return cmp.Compare(a.Earliest, b.Earliest) })
	byPID := make(map[int][]*Record) // a pid can have several processes, one after the other
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
			return nil, fmt.Errorf("%s of process %d without a recorded fork", r.Op, r.PID)
		}
		members[own] = append(members[own], r)
	}
	a := assembler{processes: make(map[int][]*Process)}
	for _, f := range forks {
		if err := a.add(members[f]); err != nil {
			return nil, err
		}
	}
	return a.all, nil
}

type assembler struct {
	processes map[int][]*Process
	all       []*Process
}

// add builds a process from its records.
func (a *assembler) add(list []*Record) error {
	slices.SortStableFunc(list, func(x, y *Record) int {
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(x.Latest, y.Latest))
	})
	l := &Process{PID: list[0].PID}
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
				l.Events[n-1].Snapshots = append(l.Events[n-1].Snapshots, Snapshot{r.Latest, shown}, Snapshot{r.Latest, now})
			}
			continue
		case HasUsed:
			l.Used = r.Used
			last = max(last, r.bound())
			continue
		case ThreadStart, ThreadEnd:
			if err := l.addThread(r); err != nil {
				return err
			}
			continue
		}
		forgetChanged(&now, r)
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
				// A snapshot from outside completes the event before it.
				e := l.Events[n-1]
				opened |= r.Open
				// The parent may have ended since, which resets the child's exit
				// signal to SIGCHLD.
				if r.State.Value[engine.FieldParentSignal] == sigchld {
					opened |= engine.FieldParentSignal.Set()
				}
				e.complete(&r.State, &r.Inside, e.State.Known|opened)
				e.Snapshots = append(e.Snapshots, Snapshot{r.Latest, now})
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
						Process: l, Kind: engine.KindIDChange, ID: id, Optional: true, Unchanged: changed&id == 0 && !r.Optional,
						Earliest: max(r.Earliest, last), Latest: r.Latest, State: duringExec(before, &now),
					})
				}
			}
		}
		if r.Op == Cgroup {
			r.Tracer = cmp.Or(r.Tracer, r.PID)
		}
		e := &Event{
			Process: l, Kind: kinds[r.Op], ID: r.ID, NS: r.NS, Tracer: r.Tracer, Status: r.Status, Used: r.Used, Failed: r.Failed, Optional: r.Optional, Compat: r.Compat, Unchanged: r.Unchanged,
			Earliest: max(r.Earliest, last), Latest: r.Latest, State: now, Inside: inside, MayCut: mayCut,
			Unreachable: unreachable,
		}
		if r.Op == Exec {
			e.ID = 0
		}
		last, opened = max(last, r.bound()), 0
		l.Events = append(l.Events, e)
	}
	a.processes[l.PID] = append(a.processes[l.PID], l)
	a.all = append(a.all, l)
	return nil
}

// changedByExec returns the ids that an exec changed: by a set-id program, and the saved ids, which
// become equal to the effective ids. A source may report the change as an event before the EXEC:
// the kernel reports user ids first.
func changedByExec(before, after *State) (changed engine.IDChange) {
	for _, c := range []struct {
		id     engine.IDChange
		fields []engine.Field
	}{
		{engine.ChangedUID, []engine.Field{engine.FieldUIDs, engine.FieldSUID}},
		{engine.ChangedGID, []engine.Field{engine.FieldGIDs, engine.FieldSGID}},
	} {
		if slices.ContainsFunc(c.fields, func(f engine.Field) bool {
			// An unrecorded value may have changed.
			return before.Known.Has(f) && before.Value[f] != after.Value[f]
		}) {
			changed |= c.id
		}
	}
	return changed
}

// mayHaveFileIDs reports whether the process, or a creator, may have a separate file system uid. An
// exec resets it to the effective id.
func (l *Process) mayHaveFileIDs() bool {
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

// duringExec returns the state between the change of ids and the end of an exec. Of the values that
// an exec changes, it has only the new ids.
func duringExec(before State, after *State) State {
	ids := *after
	ids.Forget(^engine.FieldsIDs)
	before.Forget(engine.FieldsImage | engine.SetOf(engine.FieldComm, engine.FieldCaps, engine.FieldPrivileges))
	before.Forget(engine.FieldsIDs)
	before.Overlay(&ids)
	return before
}

func (l *Process) addThread(r *Record) error {
	for _, t := range l.Threads {
		if t.TID == r.TID && r.Op == ThreadEnd {
			t.Left, t.LeftLatest = max(r.Earliest, t.Born), r.Latest
			return nil
		}
	}
	if r.Op == ThreadEnd {
		return fmt.Errorf("process %d: end of thread %d without a recorded start", l.PID, r.TID)
	}
	l.Threads = append(l.Threads, &Thread{TID: r.TID, Born: r.Earliest, BornLatest: r.Latest})
	return nil
}

// bound returns a time before all later events of the process.
func (r *Record) bound() uint64 {
	if r.Own {
		return r.Latest
	}
	return r.Earliest
}

// complete adds to e the values of s that are not in except.
func (e *Event) complete(s, inside *State, except engine.Fields) {
	missing := *s
	missing.Forget(except)
	e.State.Overlay(&missing)
	e.Inside.Overlay(inside)
}

// forgetChanged removes the values that an event may change and its record lacks.
func forgetChanged(now *State, r *Record) {
	switch r.Op {
	case Exec:
		_, euid, uids := cut(now.Value[engine.FieldUIDs])
		_, egid, gids := cut(now.Value[engine.FieldGIDs])
		now.Forget(engine.FieldsImage | engine.SetOf(engine.FieldComm, engine.FieldPrivileges, engine.FieldSUID, engine.FieldSGID, engine.FieldCaps))
		if now.Known.Has(engine.FieldParentSignal) {
			now.Set(engine.FieldParentSignal, sigchld)
		}
		// An exec saves the effective ids.
		if uids {
			now.Set(engine.FieldSUID, euid)
		}
		if gids {
			now.Set(engine.FieldSGID, egid)
		}
	case IDs:
		if r.ID == engine.ChangedPGID {
			break
		}
		now.Forget(engine.FieldCaps.Set())
	}
	now.Forget(r.Open)
}

const sigchld = "17"

func cut(pair string) (real, effective string, ok bool) {
	n, err := fmt.Sscan(pair, &real, &effective)
	return real, effective, err == nil && n == 2
}

// inherit copies the creator's state to a new process, and returns the creator.
func (a *assembler) inherit(now, inside *State, r *Record) (creator *Process) {
	for _, c := range slices.Backward(a.processes[r.Creator]) {
		if c.Born() > r.Earliest {
			continue
		}
		creator = c
		if was := c.at(r.Latest); was != nil {
			*now = was.State
			*inside = was.Inside
			for _, d := range was.Snapshots {
				if d.At <= r.Earliest {
					*now = d.State
				}
			}
		}
		now.Forget(c.unsettled(r.Earliest, r.Latest))
		break
	}
	fresh := r.Fresh | engine.SetOf(engine.FieldStart, engine.FieldPPID, engine.FieldBirthParentTID, engine.FieldPrivileges)
	if r.Parent == r.Creator || now.Value[engine.FieldParentSignal] != sigchld {
		// With CLONE_PARENT the signal is the creator's, or SIGCHLD after the end of a
		// parent.
		fresh = fresh.With(engine.FieldParentSignal)
	}
	now.Forget(fresh)
	// Records use pids of the initial pid namespace, whose inode has this number.
	if ns, _, _ := strings.Cut(now.Value[engine.FieldPIDNS], " "); ns == "4026531836" {
		now.Set(engine.FieldPIDNS, ns+" "+strconv.Itoa(r.PID))
	} else {
		now.Forget(engine.FieldPIDNS.Set())
	}
	if r.Parent != 0 {
		now.Set(engine.FieldPPID, strconv.Itoa(r.Parent))
	}
	return creator
}

// unsettled returns the fields whose values are uncertain in the given time span, because of an
// event at that time. For example, another thread executes a program during a fork.
func (l *Process) unsettled(earliest, latest uint64) (fields engine.Fields) {
	for i, e := range l.Events {
		if i == 0 || e.Latest < earliest || e.Earliest > latest {
			continue
		}
		before := &l.Events[i-1].State
		for f := range engine.Field(engine.NumFields) {
			if before.Known.Has(f) != e.State.Known.Has(f) || before.Value[f] != e.State.Value[f] {
				fields |= f.Set()
			}
		}
	}
	return fields
}

// at returns the last event whose earliest time is not after t.
func (l *Process) at(t uint64) (last *Event) {
	for _, e := range l.Events {
		if e.Earliest <= t {
			last = e
		}
	}
	return last
}

// Forever is the Latest of an event without upper bound.
const Forever = uint64(math.MaxUint64)
