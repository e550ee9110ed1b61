package score

import (
	"slices"
	"strconv"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Tolerance describes how the output of another monitor may differ from the ground truth. The zero
// value is for stamps in nanoseconds of CLOCK_MONOTONIC and values in quark's format.
type Tolerance struct {
	// NoStamps is set if the lines have no usable time. The time of an event is then the
	// arrival of its line, and the events of a process are matched by their order.
	NoStamps bool
	// Early and Late are the largest differences, in ns, by which a time may be before and
	// after the ground truth: by rounding, by another clock, or by a late line. Events of a pid
	// belong to a process until Late after its end.
	Early, Late uint64
	// Unchanged is set if a call that sets ids to their current values is reported as a change.
	Unchanged bool
	// As converts a ground-truth text to the monitor's format. nil means no conversion.
	As func(f engine.Field, text string) string
}

// loose reports whether the monitor's times are inexact.
func (f *Tolerance) loose() bool { return f != nil && (f.NoStamps || f.Early|f.Late != 0) }

// as converts the ground-truth text of a field to the monitor's format.
func (f *Tolerance) as(field engine.Field, text string) string {
	if f == nil || f.As == nil {
		return text
	}
	return f.As(field, text)
}

// bounds widens the times of an event to the range of its stamp.
func (f *Tolerance) bounds(earliest, latest uint64) (from, to uint64) {
	if f == nil {
		return earliest, latest
	}
	return earliest - min(earliest, f.Early), latest + min(f.Late, truth.Forever-latest)
}

// during reports whether t may be the stamp of an event between the two times. Without stamps t may
// be any later time, because a line may arrive late.
func (f *Tolerance) during(t, earliest, latest uint64) bool {
	from, to := f.bounds(earliest, latest)
	return from <= t && (t <= to || f != nil && f.NoStamps)
}

// stamps reports whether t identifies the event of a process.
func (f *Tolerance) stamps(t, earliest, latest uint64) bool {
	return (f == nil || !f.NoStamps) && f.during(t, earliest, latest)
}

// assignEvents finds the process of each event.
func (j *scorer) assignEvents(events []Seen) assigned {
	if j.w.times().loose() {
		return j.w.assignLoose(events, j.byPID)
	}
	return j.assign(events)
}

// assignLoose finds the process of each event by pid, time and order, for inexact times. The
// process is the first that had begun and has no delivered end. If ends need not be reported, the
// process is the first that lacks events of the kind, or else the last.
func (w *Delivered) assignLoose(events []Seen, processes byPID) assigned {
	a := assigned{of: make(map[*truth.Process][]*Seen), threads: make(map[*truth.Process][]*Seen)}
	over := make(map[*truth.Process]bool) // processes whose end was delivered
	foreign := make(map[uint32]uint64)    // when an unrelated process reused a pid
	find := func(pid uint32, t uint64, s *Seen) (now, last *truth.Process) {
		full := true
		for _, l := range processes[pid] {
			from, to := w.times().bounds(l.Born(), l.Ended())
			switch {
			case from > t:
			case over[l], to < t:
				last = l
			case now == nil || full && (w.Clock != nil || !w.reported(engine.KindExit)):
				now, full = l, allSeen(l, a.of[l], s.Events) || w.differs(l, s) || !w.happened(l, s)
			}
		}
		return now, last
	}
	for i := range events {
		s := &events[i]
		if s.Events.Has(engine.EventGap) {
			continue
		}
		pid := s.Process.PID
		at, last := find(pid, s.Time, s)
		if taken := foreign[pid]; taken != 0 && (at == nil || at.Born() < taken) {
			at, last = nil, nil // until the next process begins
		}
		fork := s.Events.Has(engine.EventFork) && !s.Thread
		switch {
		case s.Thread:
			if at != nil {
				a.threads[at] = append(a.threads[at], s)
			}
		case at != nil:
			a.of[at] = append(a.of[at], s)
			over[at] = over[at] || s.Events.Has(engine.EventExit)
			for _, l := range processes[pid] {
				if w.Clock == nil || l == at {
					break
				}
				over[l] = true // the events of a pid are in order
			}
		case fork && last != nil && s.Time <= w.until(last) && !slices.ContainsFunc(a.of[last], isFork):
			a.of[last] = append(a.of[last], s) // after its end
		case fork:
			foreign[pid] = s.Time
			if parent, _ := find(s.Process.PPID, s.Time, new(Seen)); parent != nil && s.Process.Known.Has(engine.FieldPPID) {
				a.stray = append(a.stray, stray{s, parent})
			}
		case last == nil || !w.reported(engine.KindFork): // the pid may be reused
		case s.Time <= w.until(last):
			a.of[last] = append(a.of[last], s) // a repeated event after the end
		default:
			a.stray = append(a.stray, stray{s, last})
		}
	}
	return a
}

// differs reports whether s has another start time than l or, for an end, another status or parent.
func (w *Delivered) differs(l *truth.Process, s *Seen) bool {
	p, end := s.Process, l.Events[len(l.Events)-1]
	switch {
	case p == nil:
		return false
	case p.Known.Has(engine.FieldStart) && l.Events[0].Kind == engine.KindFork && !w.startedAt(l, p.Start, max(p.StartUnit, 1)):
		return true
	case !s.Events.Has(engine.EventExit):
		return false
	}
	ppid, reported := strconv.Itoa(int(p.PPID)), p.Known&^p.Cached&end.State.Known
	return p.Known.Has(engine.FieldExit) && p.Task.Exit.WaitStatus != end.Status ||
		reported.Has(engine.FieldPPID) && ppid != end.State.Value[engine.FieldPPID] && !adopted(end, ppid, w.latest(end))
}

// happened reports whether l has an event of this kind at the time of s.
func (w *Delivered) happened(l *truth.Process, s *Seen) bool {
	return slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
		return s.Events.Has(e.Kind.Events()) && w.times().during(s.Time, e.Earliest, e.Latest)
	})
}

// until returns the latest time of an event of l.
func (w *Delivered) until(l *truth.Process) uint64 {
	_, to := w.times().bounds(l.Born(), l.Ended())
	return to
}

// allSeen reports whether all events of the given kinds were delivered for l.
func allSeen(l *truth.Process, seen []*Seen, what engine.Events) bool {
	left := 0
	for _, e := range l.Events {
		if what.Has(e.Kind.Events()) {
			left++
		}
	}
	for _, s := range seen {
		if s.Events.Has(what) {
			left--
		}
	}
	return left <= 0
}

func isFork(s *Seen) bool { return s.Events.Has(engine.EventFork) }

// stale reports whether a monitor's value is a value that the process had at another time, or
// inherited.
func (j *scorer) stale(v value, e *truth.Event) bool {
	if j.w.Foreign == nil {
		return false
	}
	v.kernel = false
	if v.field == engine.FieldPPID && adopted(e, v.text, truth.Forever) {
		return true
	}
	return v.matchesOtherTime(e) || slices.ContainsFunc(e.Process.Events, func(o *truth.Event) bool { return v.matches(&o.State, &o.Inside) })
}
