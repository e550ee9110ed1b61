package score

import (
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// maxClockStep is how far the wall clock may be adjusted during a run.
const maxClockStep = 200 * time.Millisecond

// delivery scores what holds of every delivered event of a process: the wall time, and
// that the queue's table had the same process.
func (j *judge) delivery(l *truth.Life, seen []*Seen) {
	for _, s := range seen {
		if s.Table != "" {
			j.Table++
			j.find(l, "%s at %d: %s", s.Events, s.Time, s.Table)
		}
		if s.Process.Exited && s.Events&engine.EventExit == 0 {
			j.Table++
			j.find(l, "%s at %d: marked as ended", s.Events, s.Time)
		}
		if s.Wall.IsZero() || j.w.WallOffset == 0 {
			continue
		}
		if d := s.Wall.Sub(time.Unix(0, int64(s.Time)+j.w.WallOffset)).Abs(); d > maxClockStep {
			j.Stamp.Wrong++
			j.find(l, "%s at %d: the wall time %v is off by %v", s.Events, s.Time, s.Wall, d)
		}
	}
}

// alone scores that a delivered event is one event, or one that has taken in the comm
// that a new process or program gives itself.
func (j *judge) alone(l *truth.Life, s *Seen) {
	switch s.Events {
	case engine.EventFork | engine.EventSetProcTitle, engine.EventExec | engine.EventSetProcTitle:
		return
	}
	if n := len(s.Events.Names(nil)); n > 1 {
		j.Unjoined++
		j.find(l, "%s at %d is %d events that were to come one by one", s.Events, s.Time, n)
	}
}

// aggregation compares how the events of a process were joined with the rules.
func (j *judge) aggregation(l *truth.Life, seen []*Seen) {
	if l.Born() < j.w.Opened || len(seen) == 0 {
		return
	}
	hold := j.w.JoinedHold
	if hold == 0 {
		hold = j.w.Hold
	}
	if l.Ended()-l.Born() > hold/2 {
		j.Slow++
		return
	}
	var events []*truth.Event
	var ignore engine.Events
	for _, e := range l.Events {
		switch {
		case e.Optional:
			ignore |= e.Kind.Events()
		case j.w.reported(e.Kind):
			events = append(events, e)
		}
	}
	var got []engine.Events
	for _, s := range seen {
		if left := s.Events &^ ignore; left != 0 {
			got = append(got, left)
		}
	}
	if want := Join(events); ignore == 0 && text(got) != text(want) || ignore != 0 && len(got) > len(want)+1 {
		j.Unjoined++
		j.find(l, "joined to %s, not %s", text(got), text(want))
		return
	}
	j.Joined++
}

func text(list []engine.Events) string {
	var names []string
	for _, e := range list {
		names = append(names, e.String())
	}
	return strings.Join(names, ", ")
}

// Join applies the documented rules of aggregation to the events of one process, in
// their order: FORK takes in the comms that follow, the id changes until an EXEC, one
// EXEC unless ids have changed, and the end; EXEC takes in comms and the end; a comm takes in
// further comms and the end, an id change further id changes.
func Join(events []*truth.Event) (delivered []engine.Events) {
	for len(events) > 0 {
		head := events[0].Kind
		mask := head.Events()
		n := 1
		for n < len(events) && takes(head, events[n].Kind, mask) {
			mask |= events[n].Kind.Events()
			n++
		}
		delivered = append(delivered, mask)
		events = events[n:]
	}
	return delivered
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
