package score

import (
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// reported reports whether the table has the kind.
func (w *Witness) reported(k engine.Kind) bool { return w.Table.Kinds[k].Origin != engine.OriginNone }

// seesUnchanged reports whether the backend cannot tell a call that changes ids from one
// that does not: the proc connector's message comes for ids of file system access too,
// and where a call returns nothing shows what the ids were.
func (w *Witness) seesUnchanged() bool {
	return w.Backend == "cnproc" || strings.Contains(w.Table.Kinds[engine.KindIDChange].Via, "sys_exit_")
}

// expected reports whether e has to be delivered.
func (w *Witness) expected(e *truth.Event) bool {
	return !e.Optional && w.reported(e.Kind) && e.Earliest >= w.Opened
}

// life scores completeness, precision, fields and delays of one process.
func (j *judge) life(l *truth.Life, seen []*Seen) {
	found := make(map[*truth.Event]bool)
	for k := range engine.Kind(engine.NumKinds) {
		switch k {
		case engine.KindComm, engine.KindIDChange:
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
		case j.w.expected(e):
			j.Truth++
			j.find(l, "%s between %d and %d was not seen", e.Kind, e.Earliest, e.Latest)
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
		j.Delays = append(j.Delays, s.At-min(s.Time+j.w.Hold, s.At))
		j.stamp(s, events[0])
		j.fields(s, events)
	}
}

// matchOnce matches events of kinds that are never joined with their like: by
// time, then what is left in order.
func (j *judge) matchOnce(l *truth.Life, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	var events []*truth.Event
	for _, e := range l.Events {
		if e.Kind == k {
			events = append(events, e)
		}
	}
	var left []*Seen
	for _, s := range seen {
		if s.Events&k.Events() == 0 {
			continue
		}
		i := slices.IndexFunc(events, func(e *truth.Event) bool {
			return !found[e] && e.Earliest <= s.Time && s.Time <= latest(e, j.w.AfterEnd) && j.sameTracer(s, e)
		})
		if i < 0 {
			left = append(left, s)
			continue
		}
		j.match(s, events[i], found)
	}
	for _, s := range left {
		i := slices.IndexFunc(events, func(e *truth.Event) bool { return !found[e] && j.sameTracer(s, e) })
		switch {
		case i >= 0:
			j.match(s, events[i], found)
		case len(events) > 0:
			j.Duplicates++
			j.find(l, "%s at %d was seen %d times more than it happened", s.Events, s.Time, len(left))
		default:
			j.Phantoms++
			j.find(l, "%s at %d did not happen", s.Events, s.Time)
		}
	}
}

func (j *judge) sameTracer(s *Seen, e *truth.Event) bool {
	return e.Kind != engine.KindPtrace || int(s.Tracer) == e.Tracer
}

func (j *judge) match(s *Seen, e *truth.Event, found map[*truth.Event]bool) {
	j.matched[s] = append(j.matched[s], e)
	found[e] = true
}

// matchRepeated matches events that join their like: each is in the last delivered
// event that has the kind and the changed ids and did not begin after it.
func (j *judge) matchRepeated(l *truth.Life, seen []*Seen, k engine.Kind, found map[*truth.Event]bool) {
	want := make(map[*Seen]engine.IDChange)
	for _, e := range l.Events {
		if e.Kind != k || e.Unchanged && !j.w.seesUnchanged() {
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

// Inversions counts the events in a sequence that one before them in the sequence
// happened after. An end counts as having happened up to afterEnd later.
func Inversions(order []*truth.Event, afterEnd uint64) (n int) {
	var youngest uint64                   // the greatest lower bound of what came
	furthest := make(map[*truth.Life]int) // the last event of each life that came
	for _, e := range order {
		i := slices.Index(e.Life.Events, e)
		last, some := furthest[e.Life]
		if latest(e, afterEnd) < youngest || some && i < last {
			n++
		}
		if !some || i > last {
			furthest[e.Life] = i
		}
		youngest = max(youngest, e.Earliest)
	}
	return n
}
