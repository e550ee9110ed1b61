package score

import (
	"fmt"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// maxClockStep is the largest accepted step of the wall clock during a run.
const maxClockStep = 200 * time.Millisecond

// scoreDelivery scores the conditions for every delivered event: wall time, parent at birth, no end
// before EXIT, parts, and the same process in the queue's table.
func (j *scorer) scoreDelivery(l *truth.Process, seen []*Seen) {
	for _, s := range seen {
		at := fmt.Sprintf("%s at %d", s.Events, s.Time)
		if s.Events == engine.EventGone {
			j.scoreGone(l, seen, s)
			continue
		}
		if s.Table != "" {
			j.Table++
			j.addFinding(l, "%s: %s", at, s.Table)
		}
		if s.Process.Inferred || s.Process.Exited && !s.Events.Has(engine.EventExit) {
			j.Table++
			j.addFinding(l, "%s: marked as ended %v, inferred %v", at, s.Process.Exited, s.Process.Inferred)
		}
		if !j.rightBirth(l, s.Process) {
			j.Table++
			j.addFinding(l, "%s: born of %+v", at, s.Process.Birth)
		}
		for i, f := range []engine.Field{engine.FieldSID, engine.FieldPGID} {
			if what := j.wrongLeader(l, s, i, f); what != "" {
				j.Table++
				j.addFinding(l, "%s: the leader by %s is %s", at, f, what)
			}
		}
		for _, id := range s.Ended {
			if j.lived(id, s) {
				j.Table++
				j.addFinding(l, "%s: %+v is printed as ended", at, id)
			}
		}
		if what := j.wrongPart(l, s); what != "" {
			j.Stamp.Wrong++
			j.addFinding(l, "%s: %s", at, what)
		}
		j.scoreWallTime(l, s)
	}
}

// scoreWallTime scores the wall time of a delivered event.
func (j *scorer) scoreWallTime(l *truth.Process, s *Seen) {
	if s.Wall.IsZero() || j.w.WallOffset == 0 {
		return
	}
	if d := s.Wall.Sub(time.Unix(0, int64(s.Time)+j.w.WallOffset)).Abs(); d > maxClockStep {
		j.Stamp.Wrong++
		j.addFinding(l, "%s at %d: wall time %v differs by %v", s.Events, s.Time, s.Wall, d)
	}
}

// scoreGone scores an inferred end, which is right only if the EXIT was lost.
func (j *scorer) scoreGone(l *truth.Process, seen []*Seen, s *Seen) {
	if livedAt(l, s.Time) || slices.ContainsFunc(seen, func(o *Seen) bool { return o.Events.Has(engine.EventExit) }) {
		j.Phantoms++
		j.addFinding(l, "GONE at %d: the process was alive, or its EXIT was delivered", s.Time)
	}
}

// rightBirth reports whether the parent at birth of p is right.
func (j *scorer) rightBirth(l *truth.Process, p *engine.Process) bool {
	fork, b := l.Events[0], &p.Birth
	if !fork.State.Known.Has(engine.FieldPPID) || l.Born() < j.w.Opened {
		return true
	}
	parent := fork.State.Value[engine.FieldPPID]
	if got := fmt.Sprint(b.Parent.PID); b.Known.Has(engine.FieldPPID) && got != parent {
		return adopted(fork, got, fork.Latest) // created with CLONE_PARENT
	}
	c := l.Creator
	switch {
	case !b.Known.Has(engine.FieldStart):
		return true
	case c == nil || fmt.Sprint(c.PID) != parent: // the parent's start is not recorded
		return b.Parent.Start <= fork.Latest+j.w.BootOffset
	}
	return j.w.startedAt(c, b.Parent.Start, engine.ProcStartUnit)
}

// wrongLeader describes the defect of the session or group leader, "" if it is right. A session or
// group keeps its number as long as it has a member.
func (j *scorer) wrongLeader(l *truth.Process, s *Seen, i int, f engine.Field) string {
	if s.Leaders == nil || !s.Process.Known.Has(f) {
		return ""
	}
	number, got := [...]uint32{s.Process.SID, s.Process.PGID}[i], s.Leaders[i]
	until := min(s.Time, l.Ended())
	born := slices.DeleteFunc(slices.Clone(j.byPID[number]), func(o *truth.Process) bool { return o.Born() > until })
	if got == nil {
		if n := len(born); n > 0 && !s.Process.Cached.Has(f) && len(j.gaps) == 0 && j.w.reported(engine.KindFork) && j.w.Table.Kinds[engine.KindFork].Partial == 0 &&
			born[n-1].Born() >= j.w.Opened && (born[n-1] == l || livedAt(born[n-1], s.Time)) {
			return "not found"
		}
		return ""
	}
	started := func(o *truth.Process) bool {
		return got.Start == 0 || j.w.startedAt(o, got.Start, engine.ProcStartUnit)
	}
	switch n := len(born); {
	case got.PID != number:
	case n == 0 && got.Start <= l.Events[0].Latest+j.w.BootOffset: // older than known processes
		return ""
	case s.Process.Cached.Has(f) && slices.ContainsFunc(born, started), n > 0 && started(born[n-1]):
		return ""
	}
	return fmt.Sprintf("%+v, not process %d", *got, number)
}

// lived reports whether a relative was certainly alive when the event began. If the pid was reused
// right after the end, id may identify either process.
func (j *scorer) lived(id engine.Identity, s *Seen) (lived bool) {
	for _, o := range j.byPID[id.PID] {
		if j.w.startedAt(o, id.Start, engine.ProcStartUnit) {
			if lived = livedAt(o, s.Time); !lived {
				return false
			}
		}
	}
	return lived && id.PID != s.Process.PID // its own leader may have ended with the event
}

// livedAt reports whether a process had certainly not ended at the given time.
func livedAt(l *truth.Process, at uint64) bool { return at < l.Events[len(l.Events)-1].Earliest }

// wrongPart describes the defect of a part of a delivered event, "" if there is none. Each part
// must be an event that happened at its time, with the ids of that time. Together the parts must
// have the kinds of the event.
func (j *scorer) wrongPart(l *truth.Process, s *Seen) string {
	var all engine.Events
	for _, p := range s.Parts {
		all |= p.Kind.Events()
		process := &engine.Process{Task: engine.Task{Inherited: engine.Inherited{Cred: p.Cred}, Known: p.Known}}
		reported := p.Known &^ p.Cached
		if !slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
			if e.Kind != p.Kind || !j.w.times().during(p.Time, e.Earliest, j.w.latest(e)) {
				return false
			}
			for f := range engine.Field(engine.NumFields) {
				if (reported & e.State.Known).Has(f) && !j.value(process, f).matches(&e.State, &e.Inside) {
					return false
				}
			}
			return true
		}) {
			return fmt.Sprintf("part %s %s at %d did not happen, or not with ids %+v (known %s)", p.Kind, p.IDChange, p.Time, p.Cred, reported)
		}
	}
	if len(s.Parts) > 0 && all != s.Events {
		return fmt.Sprintf("the kinds of the parts are %s", all)
	}
	return ""
}

// checkAlone checks that a delivered event is a single event, or is joined only with the comm that
// a new process or program sets for itself.
func (j *scorer) checkAlone(l *truth.Process, s *Seen) {
	switch s.Events {
	case engine.EventFork | engine.EventSetProcTitle, engine.EventExec | engine.EventSetProcTitle:
		return
	}
	if n := len(s.Events.Names(nil)); n > 1 {
		j.Unjoined++
		j.addFinding(l, "%s at %d joins %d events of a queue with MinAgg", s.Events, s.Time, n)
	}
}

// scoreParts scores joined events by their parts: each event that happened must be a part, and the
// fields must have the values after the last part.
func (j *scorer) scoreParts(l *truth.Process, seen []*Seen) {
	own := &scorer{Score: new(Score), w: j.w, byPID: j.byPID, matched: make(map[*Seen][]*truth.Event), gaps: j.gaps}
	heads := make(map[*Seen]*Seen)
	var parts []*Seen
	for _, s := range seen {
		for i, p := range s.Parts {
			part := &Seen{Events: p.Kind.Events(), ID: p.IDChange, Time: p.Time, At: s.At, Tracer: s.Tracer, Failed: s.Failed, NS: s.NS, TID: s.TID}
			if i == 0 {
				heads[part] = s
			}
			if i == len(s.Parts)-1 {
				part.Process = s.Process
			}
			parts = append(parts, part)
		}
	}
	own.joined = true
	own.scoreProcess(l, parts)
	for part, s := range heads {
		j.matched[s] = own.matched[part]
	}
	j.Phantoms += own.Phantoms
	j.Duplicates += own.Duplicates
	j.Unjoined += own.Truth - own.Seen - own.Lost
	for f, v := range own.Fields {
		j.Fields[f].Add(Counts{Wrong: v.Wrong, Unexplained: v.Unexplained})
	}
	for _, what := range own.Findings {
		j.addFinding(l, "joined: %s", what)
	}
}

// scoreAggregation compares how the events of a process were joined with the rules.
func (j *scorer) scoreAggregation(l *truth.Process, seen []*Seen) {
	end := l.Ended() + j.w.AfterEnd
	if l.Born() < j.w.Opened || !j.w.open(end) || j.inGap(l.Born(), end) {
		return
	}
	hold := j.w.JoinedHold
	if hold == 0 {
		hold = j.w.Hold
	}
	if len(seen) > 0 { // a full queue delivers younger events
		hold = min(hold, seen[0].At-min(seen[0].Time, seen[0].At))
	}
	if l.Ended()-l.Born()+j.w.clockError() > hold/2 {
		j.Slow++
		return
	}
	var events, certain []*truth.Event
	var optional engine.Events
	for _, e := range l.Events {
		switch {
		case !j.w.reported(e.Kind):
			continue
		case j.w.optional(e):
			optional |= e.Kind.Events()
		default:
			certain = append(certain, e)
		}
		events = append(events, e)
	}
	var got, visible []engine.Events
	for _, s := range seen {
		got = append(got, s.Events)
		if m := s.Events &^ optional; m != 0 {
			visible = append(visible, m)
		}
	}
	if j.joinsTo(events, optional, visible) {
		j.Joined++
		return
	}
	j.Unjoined++
	j.addFinding(l, "joined to %v, not %v, held for %d ns; processes of the pid: %s", got, Join(certain), hold, j.story(l, seen))
}

// group is the start of a joined event: its first kind, all kinds, and all kinds with the id
// changes that have no event.
type group struct {
	head        engine.Kind
	mask, shown engine.Events
}

// add adds an event if the documented rules allow it. FORK accepts comms, id changes before an
// EXEC, one EXEC unless ids have changed, and the end. EXEC accepts comms and the end. A comm
// accepts more comms and the end. An id change accepts more id changes. changed is set if the event
// shows a change of a changeable field: this counts as an id change before the event.
// A change of the process group alone counts as none.
func (g *group) add(e *truth.Event, changed bool) bool {
	next := e.Kind
	if g.mask == 0 || changed && !canJoin(g.head, engine.KindIDChange, g.shown) {
		return false
	}
	if changed {
		g.shown |= engine.EventIDChange
	}
	if !canJoin(g.head, next, g.shown) {
		return false
	}
	g.mask |= next.Events()
	if e.ID != engine.ChangedPGID {
		g.shown |= next.Events()
	}
	return true
}

func begin(head engine.Kind) group { return group{head, head.Events(), head.Events()} }

// Join applies the rules to the events of one process, which are in order.
func Join(events []*truth.Event) (joined []engine.Events) {
	var g group
	for _, e := range events {
		if g.add(e, false) {
			joined[len(joined)-1] = g.mask
		} else {
			g = begin(e.Kind)
			joined = append(joined, g.mask)
		}
	}
	return joined
}

// joinsTo reports whether the rules can produce joined from events. Optional events may be missing.
// An event that may show a change without an event may also not show the change. Kinds in optional
// are ignored, as a source may fail to report such an event.
func (j *scorer) joinsTo(events []*truth.Event, optional engine.Events, joined []engine.Events) bool {
	// way is one possible grouping of the events so far.
	type way struct {
		group
		last *truth.Event // the last event that is not missing
		done int          // number of joined events before the group
	}
	end := func(w *way) bool {
		m := w.mask &^ optional
		switch {
		case m == 0:
			return true
		case w.done == len(joined) || joined[w.done] != m:
			return false
		}
		w.done++
		return true
	}
	ways := map[way]bool{{}: true}
	for _, e := range events {
		next := make(map[way]bool)
		for w := range ways {
			if j.w.optional(e) {
				next[w] = true
			}
			for _, changed := range []bool{false, true} {
				if changed && (w.last == nil || !j.mayShowChange(e, w.last)) {
					break
				}
				n := way{w.group, e, w.done}
				if !n.add(e, changed) {
					if !end(&n) {
						continue
					}
					n.group = begin(e.Kind)
				}
				next[n] = true
			}
		}
		ways = next
	}
	for w := range ways {
		if end(&w) && w.done == len(joined) {
			return true
		}
	}
	return false
}

// changeable are the fields that end joining when they change.
const changeable = engine.FieldsInherited | 1<<engine.FieldPGID | 1<<engine.FieldSID

// mayShowChange reports whether a changeable field may differ between before and e without an event
// that reports the change.
func (j *scorer) mayShowChange(e, before *truth.Event) bool {
	switch {
	case e.Kind == engine.KindIDChange, e.Kind == engine.KindExec && j.w.reported(engine.KindIDChange):
		return false
	case e.Kind == engine.KindExec:
		// An exec does not change the real ids. If they differ, a change of ids was missed,
		// or the ids changed before /proc was read.
		all := []*truth.Event{e}
		if e.Process != nil {
			all = e.Process.Events
		}
		return slices.ContainsFunc(all, func(e *truth.Event) bool {
			return differ(&e.State, &before.State, engine.SetOf(engine.FieldUIDs, engine.FieldGIDs))
		})
	}
	return differ(&e.State, &before.State, changeable)
}

// differ reports whether one of the fields may differ between is and was.
func differ(is, was *truth.State, fields engine.Fields) bool {
	for f := range engine.Field(engine.NumFields) {
		reported := is.Known.Has(f) && was.Known.Has(f)
		if fields.Has(f) && (!reported || is.Value[f] != was.Value[f]) {
			return true
		}
	}
	return false
}

func canJoin(head, next engine.Kind, mask engine.Events) bool {
	first := mask&next.Events() == 0
	switch head {
	case engine.KindFork:
		switch next {
		case engine.KindExec:
			return first && mask&engine.EventIDChange == 0
		case engine.KindSetProcTitle:
			return true
		case engine.KindIDChange:
			return mask&engine.EventExec == 0
		}
		return first && (next == engine.KindExit || next == engine.KindCoreDump)
	case engine.KindExec:
		return next == engine.KindSetProcTitle || first && (next == engine.KindExit || next == engine.KindCoreDump)
	case engine.KindSetProcTitle:
		return next == engine.KindSetProcTitle || first && next == engine.KindExit
	case engine.KindIDChange:
		return next == engine.KindIDChange
	}
	return false
}
