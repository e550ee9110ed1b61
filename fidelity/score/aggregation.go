package score

import (
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// aggregation compares how the events of a process were joined with the rules.
func (j *judge) aggregation(l *truth.Life, seen []*Seen) {
	if l.Born() < j.w.Opened || len(seen) == 0 {
		return
	}
	if l.Ended()-l.Born() > j.w.Hold/2 {
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
