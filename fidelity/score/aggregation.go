package score

import (
	"fmt"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// maxClockStep is how far the wall clock may be adjusted during a run.
const maxClockStep = 200 * time.Millisecond

// delivery scores what holds of every delivered event of a process: the wall time, the parent at
// birth, whether the process lives, the parts, and that the queue's table had the same process.
func (j *scorer) delivery(l *truth.Life, seen []*Seen) {
	for _, s := range seen {
		at := fmt.Sprintf("%s at %d", s.Events, s.Time)
		if s.Events == engine.EventGone {
			j.gone(l, seen, s)
			continue
		}
		if s.Table != "" {
			j.Table++
			j.find(l, "%s: %s", at, s.Table)
		}
		if s.Process.Inferred || s.Process.Exited && !s.Events.Has(engine.EventExit) {
			j.Table++
			j.find(l, "%s: marked as ended %v, inferred %v", at, s.Process.Exited, s.Process.Inferred)
		}
		if !j.bornOf(l, s.Process) {
			j.Table++
			j.find(l, "%s: born of %+v", at, s.Process.Birth)
		}
		for i, f := range []engine.Field{engine.FieldSID, engine.FieldPGID} {
			if what := j.wrongLeader(l, s, i, f); what != "" {
				j.Table++
				j.find(l, "%s: the leader by %s is %s", at, f, what)
			}
		}
		for _, id := range s.Ended {
			if j.lived(id, s) {
				j.Table++
				j.find(l, "%s: %+v is printed as ended", at, id)
			}
		}
		if what := j.wrongPart(l, s); what != "" {
			j.Stamp.Wrong++
			j.find(l, "%s: %s", at, what)
		}
		j.wall(l, s)
	}
}

// wall scores the wall time of a delivered event.
func (j *scorer) wall(l *truth.Life, s *Seen) {
	if s.Wall.IsZero() || j.w.WallOffset == 0 {
		return
	}
	if d := s.Wall.Sub(time.Unix(0, int64(s.Time)+j.w.WallOffset)).Abs(); d > maxClockStep {
		j.Stamp.Wrong++
		j.find(l, "%s at %d: the wall time %v is off by %v", s.Events, s.Time, s.Wall, d)
	}
}

// gone scores the inferred end of a process, which is only for one whose EXIT was lost.
func (j *scorer) gone(l *truth.Life, seen []*Seen, s *Seen) {
	if livedAt(l, s.Time) || slices.ContainsFunc(seen, func(o *Seen) bool { return o.Events.Has(engine.EventExit) }) {
		j.Phantoms++
		j.find(l, "GONE at %d: the process lived, or its EXIT was reported", s.Time)
	}
}

// bornOf reports whether what a process says of its parent at birth is right.
func (j *scorer) bornOf(l *truth.Life, p *engine.Process) bool {
	fork, b := l.Events[0], &p.Birth
	if !fork.State.Told.Has(engine.FieldPPID) || l.Born() < j.w.Opened {
		return true
	}
	parent := fork.State.Value[engine.FieldPPID]
	if got := fmt.Sprint(b.Parent.PID); b.Known.Has(engine.FieldPPID) && got != parent {
		return adopted(fork, got, fork.Latest) // made with CLONE_PARENT
	}
	c := l.Creator
	switch {
	case !b.Known.Has(engine.FieldStart):
		return true
	case c == nil || fmt.Sprint(c.PID) != parent: // whose start is not told
		return b.Parent.Start <= fork.Latest+j.w.BootOffset
	}
	return j.w.startedAt(c, b.Parent.Start, engine.ProcStartUnit)
}

// wrongLeader returns what is wrong with the leader of a process by its session or group, "" if
// nothing is. Nobody else has the number of either as long as it has a member.
func (j *scorer) wrongLeader(l *truth.Life, s *Seen, i int, f engine.Field) string {
	if s.Leaders == nil || !s.Process.Known.Has(f) {
		return ""
	}
	number, got := [...]uint32{s.Process.SID, s.Process.PGID}[i], s.Leaders[i]
	until := min(s.Time, l.Ended())
	born := slices.DeleteFunc(slices.Clone(j.byPID[number]), func(o *truth.Life) bool { return o.Born() > until })
	if got == nil {
		if n := len(born); n > 0 && !s.Process.Carried.Has(f) && len(j.gaps) == 0 && j.w.reported(engine.KindFork) && j.w.Table.Kinds[engine.KindFork].Partial == 0 &&
			born[n-1].Born() >= j.w.Opened && (born[n-1] == l || livedAt(born[n-1], s.Time)) {
			return "not found"
		}
		return ""
	}
	started := func(o *truth.Life) bool { return got.Start == 0 || j.w.startedAt(o, got.Start, engine.ProcStartUnit) }
	switch n := len(born); {
	case got.PID != number:
	case n == 0 && got.Start <= l.Events[0].Latest+j.w.BootOffset: // older than what is known
		return ""
	case s.Process.Carried.Has(f) && slices.ContainsFunc(born, started), n > 0 && started(born[n-1]):
		return ""
	}
	return fmt.Sprintf("%+v, not process %d", *got, number)
}

// lived reports whether the relative of a process was alive when an event of the process began. Of
// those whose pid was given again right after their end it is either.
func (j *scorer) lived(id engine.Identity, s *Seen) (lived bool) {
	for _, o := range j.byPID[id.PID] {
		if j.w.startedAt(o, id.Start, engine.ProcStartUnit) {
			if lived = livedAt(o, s.Time); !lived {
				return false
			}
		}
	}
	return lived && id.PID != s.Process.PID // a leader of itself is as in its own event
}

// livedAt reports whether a process had certainly not ended at a time.
func livedAt(l *truth.Life, at uint64) bool { return at < l.Events[len(l.Events)-1].Earliest }

// wrongPart returns what is wrong with the parts of a delivered event: each is an event that
// happened at its time, with the ids of then, and together they are what the event reports.
func (j *scorer) wrongPart(l *truth.Life, s *Seen) string {
	var all engine.Events
	for _, p := range s.Parts {
		all |= p.Kind.Events()
		process := &engine.Process{Task: engine.Task{Cred: p.Cred, Known: p.Known}}
		told := p.Known &^ p.Carried
		if !slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
			if e.Kind != p.Kind || !j.w.times().during(p.Time, e.Earliest, j.w.latest(e)) {
				return false
			}
			for f := range engine.Field(engine.NumFields) {
				if (told & e.State.Told).Has(f) && !j.value(process, f).isOf(&e.State, &e.Inside) {
					return false
				}
			}
			return true
		}) {
			return fmt.Sprintf("%s %s at %d did not happen, or not with ids %+v (known %s)", p.Kind, p.IDChange, p.Time, p.Cred, told)
		}
	}
	if len(s.Parts) > 0 && all != s.Events {
		return fmt.Sprintf("its parts are %s", all)
	}
	return ""
}

// alone scores that a delivered event is one event, or one that has taken in the comm
// that a new process or program gives itself.
func (j *scorer) alone(l *truth.Life, s *Seen) {
	switch s.Events {
	case engine.EventFork | engine.EventSetProcTitle, engine.EventExec | engine.EventSetProcTitle:
		return
	}
	if n := len(s.Events.Names(nil)); n > 1 {
		j.Unjoined++
		j.find(l, "%s at %d is %d events that were to come one by one", s.Events, s.Time, n)
	}
}

// parts scores joined events by their parts: each event that happened is one, and the fields are
// what the process was after the last.
func (j *scorer) parts(l *truth.Life, seen []*Seen) {
	own := &scorer{Score: new(Score), w: j.w, byPID: j.byPID, matched: make(map[*Seen][]*truth.Event), gaps: j.gaps}
	heads := make(map[*Seen]*Seen)
	var parts []*Seen
	for _, s := range seen {
		for i, p := range s.Parts {
			part := &Seen{Events: p.Kind.Events(), ID: p.IDChange, Time: p.Time, At: s.At, Tracer: s.Tracer, Failed: s.Failed, TID: s.TID}
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
	own.life(l, parts)
	for part, s := range heads {
		j.matched[s] = own.matched[part]
	}
	j.Phantoms += own.Phantoms
	j.Duplicates += own.Duplicates
	j.Unjoined += own.Truth - own.Seen - own.Lost
	for f, v := range own.Fields {
		j.Fields[f].Add(Verdicts{Wrong: v.Wrong, Unexplained: v.Unexplained})
	}
	for _, what := range own.Findings {
		j.find(l, "joined: %s", what)
	}
}

// aggregation compares how the events of a process were joined with the rules.
func (j *scorer) aggregation(l *truth.Life, seen []*Seen) {
	end := l.Ended() + j.w.AfterEnd
	if l.Born() < j.w.Opened || !j.w.open(end) || j.inGap(l.Born(), end) {
		return
	}
	hold := j.w.JoinedHold
	if hold == 0 {
		hold = j.w.Hold
	}
	if len(seen) > 0 { // a queue that fills up delivers what is younger
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
	j.find(l, "joined to %v, not %v, held for %d ns; of the pid are %s", got, Join(certain), hold, j.story(l, seen))
}

// group is the beginning of a joined event: its first kind and all kinds, and with these the id
// changes that have no event.
type group struct {
	head        engine.Kind
	mask, shown engine.Events
}

// take adds an event, if the documented rules let the group take it: FORK takes in the comms that
// follow, the id changes until an EXEC, one EXEC unless ids have changed, and the end; EXEC takes
// in comms and the end; a comm takes in further comms and the end, an id change further id changes.
// If the event shows that a changeable field has changed, an id change comes before it.
func (g *group) take(next engine.Kind, changed bool) bool {
	if g.mask == 0 || changed && !takes(g.head, engine.KindIDChange, g.shown) {
		return false
	}
	if changed {
		g.shown |= engine.EventIDChange
	}
	if !takes(g.head, next, g.shown) {
		return false
	}
	g.mask |= next.Events()
	g.shown |= next.Events()
	return true
}

func begin(head engine.Kind) group { return group{head, head.Events(), head.Events()} }

// Join applies the rules to the events of one process, in their order.
func Join(events []*truth.Event) (joined []engine.Events) {
	var g group
	for _, e := range events {
		if g.take(e.Kind, false) {
			joined[len(joined)-1] = g.mask
		} else {
			g = begin(e.Kind)
			joined = append(joined, g.mask)
		}
	}
	return joined
}

// joinsTo reports whether the rules can make the joined events of some: any of the optional ones
// may be missing, and each that may show a change without an event may show it or not. The kinds of
// optional events are ignored: a source may have such an event without telling of it.
func (j *scorer) joinsTo(events []*truth.Event, optional engine.Events, joined []engine.Events) bool {
	// way is how the events up to one can have been joined.
	type way struct {
		group
		last *truth.Event // the last one that is not missing
		done int          // how many of joined came before the group
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
				if !n.take(e.Kind, changed) {
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

// changeable are the fields that end joining where they have changed.
const changeable = engine.FieldsIDs | engine.FieldsNS | engine.Fields(
	1<<engine.FieldCaps|1<<engine.FieldPGID|1<<engine.FieldSID|1<<engine.FieldTTY|1<<engine.FieldLogin)

// mayShowChange reports whether an event may find another value of a changeable field than the one
// before it, without an event that says so.
func (j *scorer) mayShowChange(e, before *truth.Event) bool {
	switch {
	case e.Kind == engine.KindIDChange, e.Kind == engine.KindExec && j.w.reported(engine.KindIDChange):
		return false
	case e.Kind == engine.KindExec:
		// The real ids, which it leaves, show a change of ids that has no event. They are
		// those of when /proc is read: they may have changed since, and back.
		all := []*truth.Event{e}
		if e.Life != nil {
			all = e.Life.Events
		}
		return slices.ContainsFunc(all, func(e *truth.Event) bool {
			return differ(&e.State, &before.State, engine.SetOf(engine.FieldUIDs, engine.FieldGIDs))
		})
	}
	return differ(&e.State, &before.State, changeable)
}

// differ reports whether one of some fields may have another value in a state than before.
func differ(is, was *truth.State, fields engine.Fields) bool {
	for f := range engine.Field(engine.NumFields) {
		told := is.Told.Has(f) && was.Told.Has(f)
		if fields.Has(f) && (!told || is.Value[f] != was.Value[f]) {
			return true
		}
	}
	return false
}

func takes(head, next engine.Kind, mask engine.Events) bool {
	first := mask&next.Events() == 0
	switch head {
	case engine.KindFork:
		switch next {
		case engine.KindExec:
			return first && mask&engine.EventIDChange == 0
		case engine.KindComm:
			return true
		case engine.KindIDChange:
			return mask&engine.EventExec == 0
		}
		return first && (next == engine.KindExit || next == engine.KindCoreDump)
	case engine.KindExec:
		return next == engine.KindComm || first && (next == engine.KindExit || next == engine.KindCoreDump)
	case engine.KindComm:
		return next == engine.KindComm || first && next == engine.KindExit
	case engine.KindIDChange:
		return next == engine.KindIDChange
	}
	return false
}
