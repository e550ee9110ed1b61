package score

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// threads scores the events of a process's threads: each has one FORK and one EXIT. The
// thread that ends last need not have an EXIT, as its end is that of the process; the
// leader has one if other threads lived on after it.
func (j *judge) threads(l *truth.Life, seen []*Seen) {
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
		case s.Events&engine.EventFork != 0:
			forks[s.TID]++
			j.within(l, s, t.Born, t.BornLatest)
		case s.Events&engine.EventExit != 0:
			exits[s.TID]++
			j.within(l, s, t.Left, t.LeftLatest+j.w.AfterEnd)
		}
	}
	if l.Born() < j.w.Opened {
		return
	}
	missing := 0
	for _, t := range l.Threads {
		tid := uint32(t.TID)
		j.count(l, "FORK", t, forks[tid], j.w.reported(engine.KindFork))
		j.count(l, "EXIT", t, exits[tid], false)
		if exits[tid] == 0 {
			missing++
		}
	}
	if missing > 1 && j.w.reported(engine.KindExit) {
		j.Truth += missing - 1
		j.find(l, "the ends of %d of %d threads were not seen", missing, len(l.Threads))
	}
	if n := exits[uint32(l.PID)]; n > 1 {
		j.Duplicates += n - 1
		j.find(l, "the end of the leader was seen %d times", n)
	}
}

// count scores how often an event of a thread was seen that happened once.
func (j *judge) count(l *truth.Life, what string, t *truth.Thread, n int, expected bool) {
	switch {
	case n > 1:
		j.Duplicates += n - 1
		j.find(l, "%s of thread %d was seen %d times", what, t.TID, n)
		fallthrough
	case n == 1:
		j.Truth++
		j.Seen++
	case expected:
		j.Truth++
		j.find(l, "%s of thread %d was not seen", what, t.TID)
	}
}

// within scores the stamp of a thread's event.
func (j *judge) within(l *truth.Life, s *Seen, earliest, latest uint64) {
	if earliest <= s.Time && s.Time <= latest {
		j.Stamp.Right++
		return
	}
	j.Stamp.Wrong++
	j.find(l, "%s of thread %d is stamped %d, it was between %d and %d", s.Events, s.TID, s.Time, earliest, latest)
}

// unasked scores the events of threads from a queue that was not asked for them.
func (j *judge) unasked(l *truth.Life, seen []*Seen) {
	for _, s := range seen {
		j.Phantoms++
		j.find(l, "%s of thread %d from a queue that does not report threads", s.Events, s.TID)
	}
}
