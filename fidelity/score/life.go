package score

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// reported reports whether the table has the kind.
func (w *Witness) reported(k engine.Kind) bool { return w.Table.Kinds[k].Origin != engine.OriginNone }

// seesUnchanged reports whether the backend also reports calls that set ids to what they were.
func (w *Witness) seesUnchanged() bool {
	if f := w.times(); f != nil {
		return f.Unchanged
	}
	return w.Table.SameIDs
}

// optional reports whether e need not be delivered: it is so by its nature, or the table says that
// some events of its kind are not reported.
func (w *Witness) optional(e *truth.Event) bool {
	unchanged := e.Kind == engine.KindIDChange && e.Unchanged && w.times().loose()
	return e.Optional || unchanged || w.Table.Kinds[e.Kind].Partial != 0 && e.Compat || omits(w.Table.Kinds[e.Kind].Omits, e)
}

// omits reports whether e is in a class of events that a backend does not report.
func omits(o engine.Omission, e *truth.Event) bool {
	switch {
	case o&engine.OmitAny != 0:
		return true
	case o&engine.OmitEnds != 0:
		return e.Status&0x7f != 0 || len(e.Life.Threads) > 0 || e.Life.OpenThreads || e.Life.ByThread
	case o&engine.OmitIDs != 0:
		return e.ID != engine.ChangedSID
	}
	return false
}

// derived reports whether e is a core dump that an EXIT would have told, which is missing itself.
// Of the kernel's events only that one is missing.
func (w *Witness) derived(l *truth.Life, e *truth.Event, found map[*truth.Event]bool) bool {
	return e.Kind == engine.KindCoreDump && w.Table != nil && w.Table.Kinds[e.Kind].Origin == engine.OriginDerived &&
		slices.ContainsFunc(l.Events, func(o *truth.Event) bool { return o.Kind == engine.KindExit && !found[o] })
}

// expected reports whether e has to be delivered.
func (w *Witness) expected(e *truth.Event) bool {
	return !w.optional(e) && w.reported(e.Kind) && e.Earliest >= w.Opened && w.open(w.latest(e))
}

// open reports whether the queue was open until a time.
func (w *Witness) open(t uint64) bool { return w.Closed == 0 || t < w.Closed }

// life scores completeness, precision, fields and delays of one process.
func (j *scorer) life(l *truth.Life, seen []*Seen) {
	found := make(map[*truth.Event]bool)
	for k := range engine.Kind(engine.NumKinds) {
		switch {
		case (k == engine.KindComm || k == engine.KindIDChange) && !j.w.times().loose():
			j.matchRepeated(l, seen, k, found)
		default:
			j.matchOnce(l, seen, k, found)
		}
	}
	for _, e := range l.Events {
		switch {
		case found[e]:
			j.Truth++
			j.Seen++
		case j.w.expected(e) && !j.w.derived(l, e, found):
			j.miss(l, e.Kind.String(), e.Earliest, j.w.latest(e))
		}
	}
	for _, s := range seen {
		j.alone(l, s)
		events := j.matched[s]
		if len(events) == 0 {
			continue
		}
		slices.SortFunc(events, func(a, b *truth.Event) int {
			return slices.Index(l.Events, a) - slices.Index(l.Events, b)
		})
		from := s.Time + j.w.Hold
		if f := j.w.times(); f != nil && f.NoStamps {
			from = events[0].Latest
		}
		j.Delays = append(j.Delays, s.At-min(from, s.At))
		j.stamp(s, events[0])
		if s.Process != nil {
			j.fields(s, events)
		}
	}
}

// matchOnce matches events of kinds that are never joined with their like: by
// time, then what is left in order. An optional event takes none that is another's by its time.
func (j *scorer) matchOnce(l *truth.Life, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	var events []*truth.Event
	for _, optional := range []bool{false, true} {
		for _, e := range l.Events {
			if e.Kind == k && j.w.optional(e) == optional {
				events = append(events, e)
			}
		}
	}
	seen = slices.DeleteFunc(slices.Clone(seen), func(s *Seen) bool { return !s.Events.Has(k.Events()) })
	// match matches those whose times can be those of an event that is like them, and returns
	// the others.
	match := func(seen []*Seen, like func(*Seen, *truth.Event) bool) (left []*Seen) {
		for _, s := range seen {
			i := slices.IndexFunc(events, func(e *truth.Event) bool {
				return !found[e] && j.w.times().stamps(s.Time, e.Earliest, j.w.latest(e)) && j.sameDetails(s, e) && like(s, e)
			})
			if i < 0 {
				left = append(left, s)
				continue
			}
			j.match(s, events[i], found)
		}
		return left
	}
	left := seen
	if j.w.Clock != nil {
		// Some can be missing, and the others are in order.
		next := func(e *truth.Event) bool {
			return !slices.ContainsFunc(l.Events[slices.Index(l.Events, e)+1:], func(o *truth.Event) bool { return o.Kind == k && found[o] })
		}
		switch k {
		case engine.KindIDChange:
			left = match(left, func(s *Seen, e *truth.Event) bool { return next(e) && j.tells(s, e, changed(s.ID)) })
		case engine.KindExec:
			left = match(left, func(s *Seen, e *truth.Event) bool { return next(e) && j.tells(s, e, ofImage) })
		}
	}
	left = match(left, func(*Seen, *truth.Event) bool { return true })
	for _, s := range left {
		i := slices.IndexFunc(events, func(e *truth.Event) bool { return !found[e] && j.sameDetails(s, e) })
		switch {
		case i >= 0:
			j.match(s, events[i], found)
		case len(events) > 0:
			j.Duplicates++
			j.find(l, "%s at %d was seen %d times more than it happened%s; of the pid are %s", s.Events, s.Time, len(left), details(s), j.story(l, seen))
		default:
			j.Phantoms++
			j.find(l, "%s at %d did not happen", s.Events, s.Time)
		}
	}
}

// story returns what identifies the processes of a pid: those of the scenario, and what was seen.
func (j *scorer) story(l *truth.Life, seen []*Seen) string {
	var parts []string
	for _, o := range j.byPID[uint32(l.PID)] {
		last := o.Events[len(o.Events)-1]
		parts = append(parts, fmt.Sprintf("a life from %d..%d to %d..%d", o.Events[0].Earliest, o.Events[0].Latest, last.Earliest, last.Latest))
	}
	for _, s := range seen {
		if p := s.Process; s.Events == engine.EventGap {
			parts = append(parts, fmt.Sprintf("a gap from %d to %d", s.Gap.From, s.Gap.To))
		} else if p != nil {
			parts = append(parts, fmt.Sprintf("%s at %d (received %d, start %d, unit %d, born of %d, status %#x, known %v)",
				s.Events, s.Time, s.At, p.Start, p.StartUnit, p.Birth.Parent.PID, p.Exit.WaitStatus, p.Known))
		}
	}
	return strings.Join(parts, "; ")
}

// details returns what sameDetails looks at, for a finding.
func details(s *Seen) string {
	if s.Events.Has(engine.EventExecFailed) {
		return fmt.Sprintf(": %+v", s.Failed)
	}
	return ""
}

// sameDetails reports whether s has what e alone has of the events of its kind.
func (j *scorer) sameDetails(s *Seen, e *truth.Event) bool {
	switch e.Kind {
	case engine.KindPtrace:
		return int(s.Tracer) == e.Tracer
	case engine.KindIDChange: // one by one: only a monitor's are matched so
		return s.ID&e.ID != 0
	case engine.KindExecFailed:
		via, f := j.w.Table.Kinds[e.Kind].Via, e.Failed
		early := f.Path == "" || f.MayCut // the kernel refuses it before it has a copy
		unknown := early && strings.Contains(via, "path is unknown") || strings.Contains(via, "each path is unknown")
		f.NoPath = f.NoPath || unknown && !s.Failed.PathKnown
		return f.Is(&s.Failed) && s.Failed.PathCarried == (s.Failed.PathKnown && strings.Contains(via, "path is carried"))
	}
	return true
}

// tells reports whether what an event reports of some fields is what they were after another one.
func (j *scorer) tells(s *Seen, e *truth.Event, fields engine.Fields) bool {
	if s.Process == nil {
		return false
	}
	fields &= s.Process.Known &^ s.Process.Carried & e.State.Told
	for f := range engine.Field(engine.NumFields) {
		if fields.Has(f) && !j.value(s.Process, f).isOf(&e.State, &e.Inside) {
			return false
		}
	}
	return true
}

func (j *scorer) match(s *Seen, e *truth.Event, found map[*truth.Event]bool) {
	j.matched[s] = append(j.matched[s], e)
	found[e] = true
}

// matchRepeated matches events that join their like: each is in the last delivered
// event that has the kind and the changed ids and did not begin after it.
func (j *scorer) matchRepeated(l *truth.Life, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	want := make(map[*Seen]engine.IDChange)
	for _, e := range l.Events {
		if e.Kind != k || e.Unchanged && !j.w.seesUnchanged() || (j.inGap(e.Earliest, e.Latest) || !j.w.open(e.Latest)) && !told(seen, e) {
			continue
		}
		var last *Seen // that can report e
		for _, s := range slices.Backward(seen) {
			if s.Events&k.Events() == 0 || s.Time > e.Latest {
				continue
			}
			if s.ID&e.ID == e.ID {
				j.match(s, e, found)
				last = s
				break
			}
			if last == nil {
				last = s
			}
		}
		if last != nil {
			want[last] |= e.ID
		}
	}
	for _, s := range seen {
		ids, some := want[s]
		switch {
		case s.Events&k.Events() == 0:
		case !some:
			j.Phantoms++
			j.find(l, "%s at %d did not happen", s.Events, s.Time)
		case k == engine.KindIDChange && s.ID&^ids != 0:
			j.Phantoms++
			j.find(l, "change of %s at %d did not happen, but of %s", s.ID, s.Time, ids)
		}
	}
}

// told reports whether one of the events was stamped when e happened, or has such a part.
func told(seen []*Seen, e *truth.Event) bool {
	at := func(t uint64) bool { return e.Earliest <= t && t <= e.Latest }
	return slices.ContainsFunc(seen, func(s *Seen) bool {
		return s.Events.Has(e.Kind.Events()) && at(s.Time) ||
			slices.ContainsFunc(s.Parts, func(p engine.Part) bool { return p.Kind == e.Kind && at(p.Time) })
	})
}

// inversions counts the events in a sequence that one before them in the sequence
// happened after. One that is stamped late counts as having happened then.
func (w *Witness) inversions(order []*truth.Event) (late []*truth.Event) {
	var youngest uint64                   // the greatest lower bound of what came
	furthest := make(map[*truth.Life]int) // the last event of each life that came
	for _, e := range order {
		i := slices.Index(e.Life.Events, e)
		last, some := furthest[e.Life]
		if w.latest(e)+w.clockError() < youngest || some && i < last {
			late = append(late, e)
		}
		if !some || i > last {
			furthest[e.Life] = i
		}
		youngest = max(youngest, e.Earliest)
	}
	return late
}

// threads scores the events of a process's threads: each has one FORK and one EXIT. The
// thread that ends last need not have an EXIT, as its end is that of the process; the
// leader has one if other threads lived on after it.
func (j *scorer) threads(l *truth.Life, seen []*Seen) {
	end := l.Events[len(l.Events)-1]
	for _, s := range seen {
		j.wall(l, s)
		if s.Table != "" || s.Process.Exited && end.Kind == engine.KindExit && s.Time < end.Earliest {
			j.Table++
			j.find(l, "%s of thread %d at %d: ended %v; %s", s.Events, s.TID, s.Time, s.Process.Exited, s.Table)
		}
	}
	if l.OpenThreads {
		return
	}
	byTID := make(map[uint32]*truth.Thread)
	for _, t := range l.Threads {
		byTID[uint32(t.TID)] = t
	}
	forks, exits := make(map[uint32]int), make(map[uint32]int)
	for _, s := range seen {
		t := byTID[s.TID]
		switch leader := s.TID == uint32(l.PID) && len(l.Threads) > 0; {
		case leader && s.Events == engine.EventExit:
			exits[s.TID]++
		case t == nil:
			j.Phantoms++
			j.find(l, "%s of thread %d at %d did not happen", s.Events, s.TID, s.Time)
		case s.Events.Has(engine.EventFork):
			forks[s.TID]++
			j.within(l, s, t.Born, t.BornLatest)
		case s.Events.Has(engine.EventExit):
			exits[s.TID]++
			j.within(l, s, t.Left, t.LeftLatest+j.w.AfterEnd)
		}
	}
	if l.Born() < j.w.Opened || !j.w.open(l.Ended()+j.w.AfterEnd) {
		return
	}
	var unseen []*truth.Thread // whose ends were not
	for _, t := range l.Threads {
		tid := uint32(t.TID)
		j.count(l, "FORK", t, forks[tid])
		j.count(l, "EXIT", t, exits[tid])
		if forks[tid] == 0 && j.w.reported(engine.KindFork) {
			j.miss(l, fmt.Sprintf("FORK of thread %d", tid), t.Born, t.BornLatest)
		}
		if exits[tid] == 0 && j.w.reported(engine.KindExit) {
			unseen = append(unseen, t)
		}
	}
	// The end of the last thread is that of the process: one that no gap explains, if any.
	last := slices.IndexFunc(unseen, func(t *truth.Thread) bool { return !j.inGap(t.Left, t.LeftLatest+j.w.AfterEnd) })
	for i, t := range unseen {
		if i == max(last, 0) {
			continue
		}
		j.miss(l, fmt.Sprintf("EXIT of thread %d", t.TID), t.Left, t.LeftLatest+j.w.AfterEnd)
	}
	if n := exits[uint32(l.PID)]; n > 1 {
		j.Duplicates += n - 1
		j.find(l, "the end of the leader was seen %d times", n)
	}
}

// count scores how often an event of a thread was seen that happened once.
func (j *scorer) count(l *truth.Life, what string, t *truth.Thread, n int) {
	if n > 1 {
		j.Duplicates += n - 1
		j.find(l, "%s of thread %d was seen %d times", what, t.TID, n)
	}
	if n > 0 {
		j.Truth++
		j.Seen++
	}
}

// unasked scores the events of threads from a queue that was not asked for them.
func (j *scorer) unasked(l *truth.Life, seen []*Seen) {
	for _, s := range seen {
		j.Phantoms++
		j.find(l, "%s of thread %d from a queue that does not report threads", s.Events, s.TID)
	}
}

// assigned says which delivered events are of which life.
type assigned struct {
	of      map[*truth.Life][]*Seen
	threads map[*truth.Life][]*Seen // events of single threads
	stray   []stray
}

// stray is an event that should not be: of a process of the scenario after its end,
// or of a child that it did not have.
type stray struct {
	seen *Seen
	near *truth.Life
}

// assign finds the life of each event by pid and time. Events of other processes,
// of which there are always some, are left out.
func (j *scorer) assign(events []Seen) assigned {
	lives, afterEnd := j.byPID, j.w.AfterEnd
	gaps := gapsOf(events)
	a := assigned{of: make(map[*truth.Life][]*Seen), threads: make(map[*truth.Life][]*Seen)}
	foreign := make(map[uint32]bool) // pids that others have taken since
	for i := range events {
		s := &events[i]
		own := lives[s.Process.PID]
		at := alive(own, s.Time)
		// The birth of another process may have been lost since the end of the last.
		last := ended(own, s.Time)
		reused := last != nil && slices.ContainsFunc(gaps, func(g engine.Gap) bool { return g.To >= last.Ended() && g.From <= s.Time })
		if s.Thread {
			// It is of the process before if it happened about when this one was born.
			if last != nil && s.Time <= last.Ended()+afterEnd && (at == nil || s.Time <= at.Events[0].Latest && hasThread(last, s.TID)) {
				at = last
			}
			if at != nil {
				a.threads[at] = append(a.threads[at], s)
			}
			continue
		}
		if s.Events == engine.EventGone {
			if l := j.w.goneBefore(own, s, a.of); l != nil {
				at = l
			} else if at == nil && !reused {
				at = last
			}
		}
		// Of the next process nothing was delivered: then it is the late end of the one
		// before, unless that was delivered.
		if (s.Events == engine.EventExit || s.Events == engine.EventCoreDump) && (at == nil || len(a.of[at]) == 0) {
			told := func(o *Seen) bool { return o.Events.Has(s.Events) }
			if last != nil && s.Time <= last.Ended()+afterEnd && (at == nil || !slices.ContainsFunc(a.of[last], told) && !j.bornInGap(at, last, s)) {
				at = last
			}
		}
		if at != nil && j.ofEarlier(at, s) {
			continue
		}
		if i := j.ofAnother(s, a.of[at], gaps); at != nil && i >= 0 {
			if end := at.Events[len(at.Events)-1]; s.Process.Exit.WaitStatus == end.Status {
				a.of[at][i] = s
			}
			continue
		}
		if at != nil {
			a.of[at] = append(a.of[at], s)
			continue
		}
		fork := s.Events.Has(engine.EventFork)
		if fork {
			foreign[s.Process.PID] = true
			if parent := alive(lives[s.Process.PPID], s.Time); parent != nil && s.Process.Known.Has(engine.FieldPPID) {
				a.stray = append(a.stray, stray{s, parent})
			}
			continue
		}
		if last != nil && !foreign[s.Process.PID] && !reused {
			a.stray = append(a.stray, stray{s, last})
		}
	}
	return a
}

// bornInGap reports whether an end is that of a life and not, as its status shows, of the one that
// had the pid before, whose end a gap can have hidden with the birth of this one.
func (j *scorer) bornInGap(l, before *truth.Life, s *Seen) bool {
	fork, status := l.Events[0], func(l *truth.Life) int32 { return l.Events[len(l.Events)-1].Status }
	return s.Process.Known.Has(engine.FieldExit) && s.Process.Exit.WaitStatus == status(l) && status(l) != status(before) &&
		j.inGap(fork.Earliest, fork.Latest)
}

// ofEarlier reports whether an end is that of a process that had the pid before a life and that the
// scenario does not know: it started at another time or, at about the birth, was born of another
// parent. Such an end can be stamped as late as any, or, where its own message was lost, right
// before the birth, which is known less exactly; GONE is told at any time later.
func (j *scorer) ofEarlier(l *truth.Life, s *Seen) bool {
	fork, p := l.Events[0], s.Process
	parent := fmt.Sprint(p.Birth.Parent.PID)
	other := p.Known.Has(engine.FieldStart) && !j.w.startedAt(l, p.Start, max(p.StartUnit, 1))
	switch {
	case s.Events == engine.EventGone:
		return other
	case s.Events != engine.EventExit || s.Time > fork.Latest+j.w.AfterEnd:
		return false
	}
	return other || p.Birth.Known.Has(engine.FieldPPID) && fork.State.Told.Has(engine.FieldPPID) &&
		parent != fork.State.Value[engine.FieldPPID] && !adopted(fork, parent, fork.Latest)
}

// ofAnother returns the index of a second end of a pid among those of one life, -1 for none, if one
// of the two can be of a process that the scenario does not know: their start times do not say that
// they are of the same one, and the FORK of the later process can have been lost between them.
func (j *scorer) ofAnother(s *Seen, seen []*Seen, gaps []engine.Gap) int {
	if s.Events != engine.EventExit {
		return -1
	}
	return slices.IndexFunc(seen, func(o *Seen) bool {
		same := o.Process.Start == s.Process.Start && (o.Process.Known & s.Process.Known).Has(engine.FieldStart)
		from, to := min(o.Time, s.Time), max(o.Time, s.Time)
		return o.Events == engine.EventExit && !same &&
			slices.ContainsFunc(gaps, func(g engine.Gap) bool { return g.To >= from && g.From <= to })
	})
}

// goneBefore returns the first life that had ended by the time of a GONE, which can be stamped as
// late as any, and whose EXIT was not delivered. Of two with one pid that began in the same unit of
// start times it is the one that has ended.
func (w *Witness) goneBefore(lives []*truth.Life, s *Seen, told map[*truth.Life][]*Seen) *truth.Life {
	for _, l := range lives {
		if l.Ended() <= s.Time && w.untold(l, s, told) {
			return l
		}
	}
	return nil
}

// untold reports whether the end of a life was not delivered yet, and can be the one that s tells,
// as far as the start time says.
func (w *Witness) untold(l *truth.Life, s *Seen, told map[*truth.Life][]*Seen) bool {
	if s.Process.Known.Has(engine.FieldStart) && !w.startedAt(l, s.Process.Start, max(s.Process.StartUnit, 1)) {
		return false
	}
	return !slices.ContainsFunc(told[l], func(o *Seen) bool { return o.Events.Has(engine.EventExit) })
}

// hasThread reports whether a process has started a thread.
func hasThread(l *truth.Life, tid uint32) bool {
	return slices.ContainsFunc(l.Threads, func(t *truth.Thread) bool { return uint32(t.TID) == tid })
}

// ended returns the life that ended last before a time.
func ended(lives []*truth.Life, t uint64) (last *truth.Life) {
	for _, l := range lives {
		if l.Ended() < t && (last == nil || l.Ended() > last.Ended()) {
			last = l
		}
	}
	return last
}

// latest is the youngest stamp that an event may have. The proc connector learns from the
// message of the end whether a core was dumped.
func (w *Witness) latest(e *truth.Event) uint64 {
	if e.Kind == engine.KindExit || e.Kind == engine.KindCoreDump {
		return e.Latest + w.AfterEnd
	}
	return e.Latest
}

// alive returns the life that a time falls into.
func alive(lives []*truth.Life, t uint64) *truth.Life {
	for _, l := range lives {
		if l.Born() <= t && t <= l.Ended() {
			return l
		}
	}
	return nil
}
