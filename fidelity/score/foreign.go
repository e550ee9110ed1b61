package score

import (
	"slices"
	"strconv"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Foreign says what a monitor that is not quark's can be held to, as its output has a form of its
// own. The zero value is for stamps in nanoseconds of CLOCK_MONOTONIC and values as quark has them.
type Foreign struct {
	// NoStamps says that its lines have no time that is of use: the time of an event is that of
	// the arrival of its line. The events of a process are then told apart by their order.
	NoStamps bool
	// Early and Late are by how many nanoseconds a time may be before or after what the truth
	// says: the unit of a stamp that is rounded down, the error of another clock, and how much
	// later a line may come. A life keeps its pid's events for so long after its end.
	Early, Late uint64
	// Unchanged says that a call that sets ids to what they are is reported as a change, too.
	Unchanged bool
	// As returns how the monitor prints a true value of a field; nil: as it is.
	As func(f engine.Field, text string) string
}

// loose reports whether times are not exact.
func (f *Foreign) loose() bool { return f != nil && (f.NoStamps || f.Early|f.Late != 0) }

// as returns how a true value of a field is printed.
func (f *Foreign) as(field engine.Field, text string) string {
	if f == nil || f.As == nil {
		return text
	}
	return f.As(field, text)
}

// bounds widens the times between which an event happened to those that its stamp may have.
func (f *Foreign) bounds(earliest, latest uint64) (from, to uint64) {
	if f == nil {
		return earliest, latest
	}
	return earliest - min(earliest, f.Early), latest + min(f.Late, truth.Forever-latest)
}

// during reports whether a time may be the stamp of what happened between two others. The arrival
// of a line may be at any time after them.
func (f *Foreign) during(t, earliest, latest uint64) bool {
	from, to := f.bounds(earliest, latest)
	return from <= t && (t <= to || f != nil && f.NoStamps)
}

// stamps reports whether a time shows which event of a process it is of.
func (f *Foreign) stamps(t, earliest, latest uint64) bool {
	return (f == nil || !f.NoStamps) && f.during(t, earliest, latest)
}

// sort finds the life of each event.
func (j *scorer) sort(events []Seen) assigned {
	if j.w.times().loose() {
		return j.w.assignLoose(events, j.byPID)
	}
	return j.assign(events)
}

// assignLoose finds the life of each event by pid, time and order, where times are not exact: the
// first life whose end was not seen and that had begun. Where ends need not be reported it is the
// first one of which not all events of the kind were seen, or else the last one.
func (w *Witness) assignLoose(events []Seen, lives byPID) assigned {
	a := assigned{of: make(map[*truth.Life][]*Seen), threads: make(map[*truth.Life][]*Seen)}
	over := make(map[*truth.Life]bool) // its end was seen
	foreign := make(map[uint32]uint64) // when others have taken a pid
	find := func(pid uint32, t uint64, s *Seen) (now, last *truth.Life) {
		full := true
		for _, l := range lives[pid] {
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
			at, last = nil, nil // until the next life begins
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
			for _, l := range lives[pid] {
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
		case last == nil || !w.reported(engine.KindFork): // the pid may be another's
		case s.Time <= w.until(last):
			a.of[last] = append(a.of[last], s) // once more, after the end
		default:
			a.stray = append(a.stray, stray{s, last})
		}
	}
	return a
}

// differs reports whether an event has another start time than a life, or at its end another
// status or parent.
func (w *Witness) differs(l *truth.Life, s *Seen) bool {
	p, end := s.Process, l.Events[len(l.Events)-1]
	switch {
	case p == nil:
		return false
	case p.Known.Has(engine.FieldStart) && l.Events[0].Kind == engine.KindFork && !w.startedAt(l, p.Start, max(p.StartUnit, 1)):
		return true
	case !s.Events.Has(engine.EventExit):
		return false
	}
	ppid, reported := strconv.Itoa(int(p.PPID)), p.Known&^p.Carried&end.State.Told
	return p.Known.Has(engine.FieldExit) && p.Task.Exit.WaitStatus != end.Status ||
		reported.Has(engine.FieldPPID) && ppid != end.State.Value[engine.FieldPPID] && !adopted(end, ppid, w.latest(end))
}

// happened reports whether a life has an event of such a kind at the time of s.
func (w *Witness) happened(l *truth.Life, s *Seen) bool {
	return slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
		return s.Events.Has(e.Kind.Events()) && w.times().during(s.Time, e.Earliest, e.Latest)
	})
}

// until returns when an event of a life may come at the latest.
func (w *Witness) until(l *truth.Life) uint64 {
	_, to := w.times().bounds(l.Born(), l.Ended())
	return to
}

// allSeen reports whether as many events of some kinds were seen of a life as it has.
func allSeen(l *truth.Life, seen []*Seen, what engine.Events) bool {
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

// stale reports whether a monitor's value is what the process was at another time, or began with.
func (j *scorer) stale(v value, e *truth.Event) bool {
	if j.w.Foreign == nil {
		return false
	}
	v.kernel = false
	if v.field == engine.FieldPPID && adopted(e, v.text, truth.Forever) {
		return true
	}
	return v.isOfAnotherTime(e) || slices.ContainsFunc(e.Life.Events, func(o *truth.Event) bool { return v.isOf(&o.State, &o.Inside) })
}
