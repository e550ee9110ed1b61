package score

import (
	"slices"
	"strconv"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// scoreReparents scores the REPARENT events of a process: each has the end of a parent, and the new
// parent is an ancestor of it. all is set if the end of the first parent must have an event: joined
// events have the new parent without it.
func (j *scorer) scoreReparents(l *truth.Process, seen []*Seen, all bool) {
	left := slices.Clone(seen)
	for _, s := range seen {
		j.scoreWallTime(l, s)
	}
	for parent := parentOf(l); parent != nil; parent = parentOf(parent) {
		end := parent.Events[len(parent.Events)-1]
		i := slices.IndexFunc(left, func(s *Seen) bool {
			return int(s.OldPPID) == parent.PID && j.w.times().stamps(s.Time, end.Earliest, j.w.latest(end))
		})
		if i < 0 {
			if all && j.mustReparent(l, end) {
				j.recordMissing(l, "REPARENT", end.Earliest, j.w.latest(end))
			}
		} else if s := left[i]; true {
			left = slices.Delete(left, i, i+1)
			p := s.Process
			if sure := p.Known &^ p.Cached; sure.Has(engine.FieldPPID) && !adopted(parent.Events[0], strconv.Itoa(int(p.PPID)), truth.Forever) && !isParent(parent, p.PPID) {
				j.Phantoms++
				j.addFinding(l, "REPARENT at %d: the new parent is %d", s.Time, p.PPID)
			}
		}
		all = false
	}
	for _, s := range left {
		j.Phantoms++
		j.addFinding(l, "REPARENT at %d did not happen: parent %d", s.Time, s.OldPPID)
	}
}

// isParent reports whether the process with a pid forked l.
func isParent(l *truth.Process, pid uint32) bool {
	return l.Events[0].State.Value[engine.FieldPPID] == strconv.Itoa(int(pid))
}

// mustReparent reports whether the end of l's parent must be reported as a REPARENT of l. After a
// gap it is certain only if l has had a later event.
func (j *scorer) mustReparent(l *truth.Process, end *truth.Event) bool {
	fork, last := l.Events[0], l.Events[len(l.Events)-1]
	joins := slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
		return (e.Kind == engine.KindSetProcTitle || e.Kind == engine.KindIDChange) && e.Latest >= end.Earliest
	})
	gap := slices.ContainsFunc(j.gaps, func(g engine.Gap) bool { return g.From <= j.w.latest(end) })
	return !gap && j.w.reported(engine.KindReparent) && end.Kind == engine.KindExit && j.w.expected(end) && !joins &&
		fork.Latest < end.Earliest && (last.Kind != engine.KindExit || last.Earliest > j.w.latest(end))
}
