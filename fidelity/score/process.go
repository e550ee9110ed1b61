package score

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// reported reports whether the table lists the kind as reported.
func (w *Delivered) reported(k engine.Kind) bool { return w.Table.Kinds[k].Origin != engine.OriginNone }

// seesUnchanged reports whether the backend also reports calls that set ids to their current
// values.
func (w *Delivered) seesUnchanged() bool {
	if f := w.times(); f != nil {
		return f.Unchanged
	}
	return w.Table.SameIDs
}

// optional reports whether e may be missing, by its nature or because the table lists an omission
// for its kind.
func (w *Delivered) optional(e *truth.Event) bool {
	unchanged := e.Kind == engine.KindIDChange && e.Unchanged && w.times().loose()
	return e.Optional || unchanged || w.Table.Kinds[e.Kind].Partial != 0 && e.Compat || omits(w.Table.Kinds[e.Kind].Omits, e)
}

// omits reports whether e belongs to a class of events that a backend does not report.
func omits(o engine.Omission, e *truth.Event) bool {
	switch {
	case o&engine.OmitAny != 0:
		return true
	case o&engine.OmitEnds != 0:
		return e.Status&0x7f != 0 || len(e.Process.Threads) > 0 || e.Process.OpenThreads || e.Process.ByThread
	case o&engine.OmitIDs != 0:
		return e.ID != engine.ChangedSID
	case o&engine.OmitUserNS != 0:
		return e.NS.Changed&^engine.ChangedUser == 0
	case o&engine.OmitPGID != 0:
		return e.ID == engine.ChangedPGID
	}
	return false
}

// derived reports whether e is a core dump that the backend derives from the EXIT, and the EXIT is
// missing too. Then only the EXIT counts as missing.
func (w *Delivered) derived(l *truth.Process, e *truth.Event, found map[*truth.Event]bool) bool {
	return e.Kind == engine.KindCoreDump && w.Table != nil && w.Table.Kinds[e.Kind].Origin == engine.OriginDerived &&
		slices.ContainsFunc(l.Events, func(o *truth.Event) bool { return o.Kind == engine.KindExit && !found[o] })
}

// expected reports whether e must be delivered.
func (w *Delivered) expected(e *truth.Event) bool {
	return !w.optional(e) && w.reported(e.Kind) && e.Earliest >= w.Opened && w.open(w.latest(e))
}

// open reports whether the queue was open until t.
func (w *Delivered) open(t uint64) bool { return w.Closed == 0 || t < w.Closed }

// scoreProcess scores completeness, precision, fields and delays of one process.
func (j *scorer) scoreProcess(l *truth.Process, seen []*Seen) {
	found := make(map[*truth.Event]bool)
	for k := range engine.Kind(engine.NumKinds) {
		switch {
		case (k == engine.KindSetProcTitle || k == engine.KindIDChange) && !j.w.times().loose():
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
			j.recordMissing(l, e.Kind.String(), e.Earliest, j.w.latest(e))
		}
	}
	for _, s := range seen {
		j.checkAlone(l, s)
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
		j.scoreStamp(s, events[0])
		if s.Process != nil {
			j.scoreFields(s, events)
		}
	}
}

// matchOnce matches events of a kind that never joins another event of its kind: first by time,
// then the remaining events in order. An optional event does not match a delivered event that fits
// another event by its time.
func (j *scorer) matchOnce(l *truth.Process, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	var events []*truth.Event
	for _, optional := range []bool{false, true} {
		for _, e := range l.Events {
			if e.Kind == k && j.w.optional(e) == optional {
				events = append(events, e)
			}
		}
	}
	seen = slices.DeleteFunc(slices.Clone(seen), func(s *Seen) bool { return !s.Events.Has(k.Events()) })
	// match matches delivered events with events that fit by time and that like accepts. It
	// returns the delivered events without a match.
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
		// Events can be missing, but the rest are in order.
		next := func(e *truth.Event) bool {
			return !slices.ContainsFunc(l.Events[slices.Index(l.Events, e)+1:], func(o *truth.Event) bool { return o.Kind == k && found[o] })
		}
		switch k {
		case engine.KindIDChange:
			left = match(left, func(s *Seen, e *truth.Event) bool { return next(e) && j.agrees(s, e, changed(s.ID)) })
		case engine.KindExec:
			left = match(left, func(s *Seen, e *truth.Event) bool { return next(e) && j.agrees(s, e, ofImage) })
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
			j.addFinding(l, "%s at %d was seen %d times more than it happened%s; of the pid are %s", s.Events, s.Time, len(left), details(s), j.story(l, seen))
		default:
			j.Phantoms++
			j.addFinding(l, "%s at %d did not happen", s.Events, s.Time)
		}
	}
}

// story describes, for a finding, the processes of a pid in the scenario and the delivered events.
func (j *scorer) story(l *truth.Process, seen []*Seen) string {
	var parts []string
	for _, o := range j.byPID[uint32(l.PID)] {
		last := o.Events[len(o.Events)-1]
		parts = append(parts, fmt.Sprintf("process forked at %d..%d, ended at %d..%d", o.Events[0].Earliest, o.Events[0].Latest, last.Earliest, last.Latest))
	}
	for _, s := range seen {
		if p := s.Process; s.Events == engine.EventGap {
			parts = append(parts, fmt.Sprintf("a gap from %d to %d", s.Gap.From, s.Gap.To))
		} else if p != nil {
			parts = append(parts, fmt.Sprintf("%s at %d (received %d, start %d, unit %d, parent at birth %d, status %#x, known %v)",
				s.Events, s.Time, s.At, p.Start, p.StartUnit, p.Birth.Parent.PID, p.Exit.WaitStatus, p.Known))
		}
	}
	return strings.Join(parts, "; ")
}

// details describes, for a finding, the values that sameDetails compares.
func details(s *Seen) string {
	if s.Events.Has(engine.EventExecFailed) {
		return fmt.Sprintf(": %+v", s.Failed)
	}
	if s.Events.Has(engine.EventNSChange) {
		return fmt.Sprintf(": %+v", s.NS)
	}
	return ""
}

// sameDetails reports whether s has the details that distinguish e from other events of its kind.
func (j *scorer) sameDetails(s *Seen, e *truth.Event) bool {
	switch e.Kind {
	case engine.KindPtrace, engine.KindCgroupChange:
		return int(s.Tracer) == e.Tracer
	case engine.KindIDChange: // of a monitor; others are matched by matchRepeated
		return s.ID&e.ID != 0
	case engine.KindNSChange:
		return e.NS.Is(&s.NS)
	case engine.KindExecFailed:
		via, f := j.w.Table.Kinds[e.Kind].Via, e.Failed
		early := f.Path == "" || f.MayCut // rejected before the path was copied
		unknown := early && strings.Contains(via, "path is unknown") || strings.Contains(via, "each path is unknown")
		f.NoPath = f.NoPath || unknown && !s.Failed.PathKnown
		return f.Is(&s.Failed) && s.Failed.PathCached == (s.Failed.PathKnown && strings.Contains(via, "path is cached"))
	}
	return true
}

// agrees reports whether s has the values of the given fields after e.
func (j *scorer) agrees(s *Seen, e *truth.Event, fields engine.Fields) bool {
	if s.Process == nil {
		return false
	}
	fields &= s.Process.Known &^ s.Process.Cached & e.State.Known
	for f := range engine.Field(engine.NumFields) {
		if fields.Has(f) && !j.value(s.Process, f).matches(&e.State, &e.Inside) {
			return false
		}
	}
	return true
}

func (j *scorer) match(s *Seen, e *truth.Event, found map[*truth.Event]bool) {
	j.matched[s] = append(j.matched[s], e)
	found[e] = true
}

// matchRepeated matches events of a kind that joins other events of its kind. Each event belongs to
// the last delivered event that has the kind and the changed ids and did not begin later.
func (j *scorer) matchRepeated(l *truth.Process, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	want := make(map[*Seen]engine.IDChange)
	for _, e := range l.Events {
		if e.Kind != k || e.Unchanged && !j.w.seesUnchanged() || (j.inGap(e.Earliest, e.Latest) || !j.w.open(e.Latest)) && !stampedDuring(seen, e) {
			continue
		}
		var last *Seen // the last delivered event that can report e
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
			j.addFinding(l, "%s at %d did not happen", s.Events, s.Time)
		case k == engine.KindIDChange && s.ID&^ids != 0:
			j.Phantoms++
			j.addFinding(l, "change of %s at %d did not happen, but of %s", s.ID, s.Time, ids)
		}
	}
}

// stampedDuring reports whether one of the delivered events, or one of its parts, was stamped when
// e happened.
func stampedDuring(seen []*Seen, e *truth.Event) bool {
	at := func(t uint64) bool { return e.Earliest <= t && t <= e.Latest }
	return slices.ContainsFunc(seen, func(s *Seen) bool {
		return s.Events.Has(e.Kind.Events()) && at(s.Time) ||
			slices.ContainsFunc(s.Parts, func(p engine.Part) bool { return p.Kind == e.Kind && at(p.Time) })
	})
}

// inversions returns the events that follow a later event in the sequence. If an event can be
// stamped late, its latest possible stamp counts.
func (w *Delivered) inversions(order []*truth.Event) (late []*truth.Event) {
	var youngest uint64                      // the greatest lower bound so far
	furthest := make(map[*truth.Process]int) // index of the last event of each process so far
	for _, e := range order {
		i := slices.Index(e.Process.Events, e)
		last, some := furthest[e.Process]
		if w.latest(e)+w.clockError() < youngest || some && i < last {
			late = append(late, e)
		}
		if !some || i > last {
			furthest[e.Process] = i
		}
		youngest = max(youngest, e.Earliest)
	}
	return late
}

// scoreThreads scores the events of a process's threads: each thread has one FORK and one EXIT. A
// thread that executes a program takes the leader's tid, and its EXIT may be missing. The leader
// has an EXIT of its own if other threads outlived it.
func (j *scorer) scoreThreads(l *truth.Process, seen []*Seen) {
	end := l.Events[len(l.Events)-1]
	for _, s := range seen {
		j.scoreWallTime(l, s)
		if s.Table != "" || s.Process.Exited && end.Kind == engine.KindExit && s.Time < end.Earliest {
			j.Table++
			j.addFinding(l, "%s of thread %d at %d: ended %v; %s", s.Events, s.TID, s.Time, s.Process.Exited, s.Table)
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
			j.addFinding(l, "%s of thread %d at %d did not happen", s.Events, s.TID, s.Time)
		case s.Events.Has(engine.EventFork):
			forks[s.TID]++
			j.scoreStampWithin(l, s, t.Born, t.BornLatest)
		case s.Events.Has(engine.EventExit):
			exits[s.TID]++
			j.scoreStampWithin(l, s, t.Left, t.LeftLatest+j.w.AfterEnd)
		}
	}
	if l.Born() < j.w.Opened || !j.w.open(l.Ended()+j.w.AfterEnd) {
		return
	}
	executed := 0 // number of execs, which threads may have called
	for _, e := range l.Events {
		if e.Kind == engine.KindExec {
			executed++
		}
	}
	for _, t := range l.Threads {
		tid := uint32(t.TID)
		j.countThreadEvent(l, "FORK", t, forks[tid])
		j.countThreadEvent(l, "EXIT", t, exits[tid])
		if forks[tid] == 0 && j.w.reported(engine.KindFork) {
			j.recordMissing(l, fmt.Sprintf("FORK of thread %d", tid), t.Born, t.BornLatest)
		}
		if exits[tid] > 0 || !j.w.reported(engine.KindExit) {
			continue
		}
		if executed--; executed < 0 {
			j.recordMissing(l, fmt.Sprintf("EXIT of thread %d", t.TID), t.Left, t.LeftLatest+j.w.AfterEnd)
		}
	}
	if n := exits[uint32(l.PID)]; n > 1 {
		j.Duplicates += n - 1
		j.addFinding(l, "the end of the leader was seen %d times", n)
	}
}

// countThreadEvent scores how often a thread's event, which happened once, was delivered.
func (j *scorer) countThreadEvent(l *truth.Process, what string, t *truth.Thread, n int) {
	if n > 1 {
		j.Duplicates += n - 1
		j.addFinding(l, "%s of thread %d was seen %d times", what, t.TID, n)
	}
	if n > 0 {
		j.Truth++
		j.Seen++
	}
}

// scoreUnrequested scores thread events of a queue that was opened without threads.
func (j *scorer) scoreUnrequested(l *truth.Process, seen []*Seen) {
	for _, s := range seen {
		j.Phantoms++
		j.addFinding(l, "%s of thread %d from a queue that does not report threads", s.Events, s.TID)
	}
}

// assigned maps processes to their delivered events.
type assigned struct {
	of        map[*truth.Process][]*Seen
	threads   map[*truth.Process][]*Seen // events of single threads
	reparents map[*truth.Process][]*Seen
	stray     []stray
}

// stray is an event of a process of the scenario after the end of the process, or of a child that
// did not exist.
type stray struct {
	seen *Seen
	near *truth.Process
}

// assign finds the process of each event by pid and time. It ignores events of unrelated processes.
func (j *scorer) assign(events []Seen) assigned {
	processes, afterEnd := j.byPID, j.w.AfterEnd
	gaps := gapsOf(events)
	a := assigned{of: make(map[*truth.Process][]*Seen), threads: make(map[*truth.Process][]*Seen), reparents: make(map[*truth.Process][]*Seen)}
	foreign := make(map[uint32]bool) // pids that unrelated processes have reused
	for i := range events {
		s := &events[i]
		own := processes[s.Process.PID]
		at := alive(own, s.Time)
		// Another process may have got this pid, and its FORK may be lost.
		last := ended(own, s.Time)
		reused := last != nil && slices.ContainsFunc(gaps, func(g engine.Gap) bool { return g.To >= last.Ended() && g.From <= s.Time })
		if s.Thread {
			// A thread event close to the birth of this process belongs to the previous
			// owner of the pid.
			if last != nil && s.Time <= last.Ended()+afterEnd && (at == nil || s.Time <= at.Events[0].Latest && hasThread(last, s.TID)) {
				at = last
			}
			if at != nil {
				a.threads[at] = append(a.threads[at], s)
			}
			continue
		}
		if s.Events == engine.EventReparent {
			if at != nil {
				a.reparents[at] = append(a.reparents[at], s)
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
		// If the current process has no delivered events, this may be the late end of the
		// previous owner of the pid, unless that end was already delivered.
		if (s.Events == engine.EventExit || s.Events == engine.EventCoreDump) && (at == nil || len(a.of[at]) == 0) {
			sameKind := func(o *Seen) bool { return o.Events.Has(s.Events) }
			if last != nil && s.Time <= last.Ended()+afterEnd && (at == nil || !slices.ContainsFunc(a.of[last], sameKind) && !j.bornInGap(at, last, s)) {
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
			if parent := alive(processes[s.Process.PPID], s.Time); parent != nil && s.Process.Known.Has(engine.FieldPPID) {
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

// bornInGap reports whether, by its status, an end belongs to l and not to before, the previous
// owner of the pid. A gap can hide the end of before together with the birth of l.
func (j *scorer) bornInGap(l, before *truth.Process, s *Seen) bool {
	fork, status := l.Events[0], func(l *truth.Process) int32 { return l.Events[len(l.Events)-1].Status }
	return s.Process.Known.Has(engine.FieldExit) && s.Process.Exit.WaitStatus == status(l) && status(l) != status(before) &&
		j.inGap(fork.Earliest, fork.Latest)
}

// ofEarlier reports whether an end belongs to an unknown previous owner of the pid: it has another
// start time or, close to the birth of l, another parent. Such an end can be stamped as late as any
// end. If its message was lost, it is stamped right before the birth of l, whose time is less
// exact. A GONE can be stamped at any later time.
func (j *scorer) ofEarlier(l *truth.Process, s *Seen) bool {
	fork, p := l.Events[0], s.Process
	parent := fmt.Sprint(p.Birth.Parent.PID)
	other := p.Known.Has(engine.FieldStart) && !j.w.startedAt(l, p.Start, max(p.StartUnit, 1))
	switch {
	case s.Events == engine.EventGone:
		return other
	case s.Events != engine.EventExit || s.Time > fork.Latest+j.w.AfterEnd:
		return false
	}
	return other || p.Birth.Known.Has(engine.FieldPPID) && fork.State.Known.Has(engine.FieldPPID) &&
		parent != fork.State.Value[engine.FieldPPID] && !adopted(fork, parent, fork.Latest)
}

// ofAnother returns the index in seen of another EXIT with the pid of s, or -1. One of the two may
// belong to a process outside the scenario: their start times do not prove that both are of one
// process, and a FORK between them can be lost.
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

// goneBefore returns the first process that had ended before s, a GONE, and has no delivered EXIT.
// A GONE can be stamped late. If two processes of a pid have equal start times, it picks the
// process that ended.
func (w *Delivered) goneBefore(processes []*truth.Process, s *Seen, delivered map[*truth.Process][]*Seen) *truth.Process {
	for _, l := range processes {
		if l.Ended() <= s.Time && w.endMissing(l, s, delivered) {
			return l
		}
	}
	return nil
}

// endMissing reports whether the end of l has not been delivered and can be s by the start time.
func (w *Delivered) endMissing(l *truth.Process, s *Seen, delivered map[*truth.Process][]*Seen) bool {
	if s.Process.Known.Has(engine.FieldStart) && !w.startedAt(l, s.Process.Start, max(s.Process.StartUnit, 1)) {
		return false
	}
	return !slices.ContainsFunc(delivered[l], func(o *Seen) bool { return o.Events.Has(engine.EventExit) })
}

// hasThread reports whether a process has started a thread.
func hasThread(l *truth.Process, tid uint32) bool {
	return slices.ContainsFunc(l.Threads, func(t *truth.Thread) bool { return uint32(t.TID) == tid })
}

// ended returns the process that was the last to end before t.
func ended(processes []*truth.Process, t uint64) (last *truth.Process) {
	for _, l := range processes {
		if l.Ended() < t && (last == nil || l.Ended() > last.Ended()) {
			last = l
		}
	}
	return last
}

// latest returns the latest possible stamp of an event. The proc connector reports a core dump with
// the message of the exit.
func (w *Delivered) latest(e *truth.Event) uint64 {
	if e.Kind == engine.KindExit || e.Kind == engine.KindCoreDump {
		return e.Latest + w.AfterEnd
	}
	return e.Latest
}

// alive returns the process that was alive at t.
func alive(processes []*truth.Process, t uint64) *truth.Process {
	for _, l := range processes {
		if l.Born() <= t && t <= l.Ended() {
			return l
		}
	}
	return nil
}
