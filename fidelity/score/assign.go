package score

import (
	"slices"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

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
func assign(events []Seen, lives []*truth.Life, afterEnd uint64) assigned {
	a := assigned{of: make(map[*truth.Life][]*Seen), threads: make(map[*truth.Life][]*Seen)}
	byPID := make(map[uint32][]*truth.Life)
	for _, l := range lives {
		byPID[uint32(l.PID)] = append(byPID[uint32(l.PID)], l)
	}
	foreign := make(map[uint32]bool) // pids that others have taken since
	for i := range events {
		s := &events[i]
		own := byPID[s.Process.PID]
		at := alive(own, s.Time)
		if s.Thread {
			if l := ended(own, s.Time); at == nil && l != nil && s.Time <= l.Ended()+afterEnd {
				at = l
			}
			if at != nil {
				a.threads[at] = append(a.threads[at], s)
			}
			continue
		}
		if s.Events == engine.EventGone && at == nil {
			at = ended(own, s.Time)
		}
		// Of the next process nothing was delivered: then it is the late end of the one
		// before.
		if (s.Events == engine.EventExit || s.Events == engine.EventCoreDump) && (at == nil || len(a.of[at]) == 0) {
			if l := ended(own, s.Time); l != nil && s.Time <= l.Ended()+afterEnd {
				at = l
			}
		}
		if at != nil {
			a.of[at] = append(a.of[at], s)
			continue
		}
		fork := s.Events&engine.EventFork != 0
		if fork {
			foreign[s.Process.PID] = true
			if parent := alive(byPID[s.Process.PPID], s.Time); parent != nil && s.Process.Known.Has(engine.FieldPPID) {
				a.stray = append(a.stray, stray{s, parent})
			}
			continue
		}
		i := slices.IndexFunc(own, func(l *truth.Life) bool { return l.Ended() < s.Time })
		if i >= 0 && !foreign[s.Process.PID] {
			a.stray = append(a.stray, stray{s, own[i]})
		}
	}
	return a
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
func latest(e *truth.Event, afterEnd uint64) uint64 {
	if e.Kind == engine.KindExit || e.Kind == engine.KindCoreDump {
		return e.Latest + afterEnd
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
