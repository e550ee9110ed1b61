package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

type event = quark.Event

// view is one queue and the events that it delivered in a test.
type view struct {
	*cell
	q      *quark.Queue
	atOpen quark.Stats    // the counters when it was opened by watch or share
	before quark.Stats    // the counters at the last call of mark
	events []*quark.Event // clones of all that were delivered in the test, in order
}

// pump reads what the queue delivers now.
func (v *view) pump() {
	for {
		ev, err := v.q.Get()
		switch {
		case err == nil:
			v.events = append(v.events, ev.Clone())
			if v.verbose >= 3 {
				v.Logf("%s", ev.AppendDump(nil))
			}
		case errors.Is(err, quark.ErrNothing):
			return
		default:
			v.Fatalf("get: %v", err)
		}
	}
}

// await reads events of this queue until cond holds. Between looks, each of which costs a guest
// half a millisecond, it sleeps until the queue has something: at most for a while, as the test
// may wait for something else than events.
func (v *view) await(what string, cond func() bool) {
	v.Waiting(v.backend + ": " + what)
	nap := func(longest time.Duration) {
		if err := v.q.Block(longest); err != nil {
			v.Fatalf("block: %v", err)
		}
	}
	v.poll(v.Fatalf, nap, what, func() bool {
		v.pump()
		return cond()
	})
}

// awaitEvent returns the first event of p that satisfies want, and reads events until
// there is one.
func (v *view) awaitEvent(p *proc, what string, want func(*event) bool) (found *event) {
	next := 0
	v.await(fmt.Sprintf("%s of pid %d", what, p.PID), func() bool {
		for ; next < len(v.events); next++ {
			if ev := v.events[next]; v.isOf(ev, p) && want(ev) {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

// has returns a condition for awaitEvent: the event has all of the kinds.
func has(kinds engine.Events) func(*event) bool {
	return func(ev *event) bool { return ev.Events&kinds == kinds && !ev.Thread }
}

// exit returns p's EXIT.
func (v *view) exit(p *proc) *event { return v.awaitEvent(p, "EXIT", has(engine.EventExit)) }

// isOf reports whether an event is of p, and not of an earlier process with its pid.
func (v *view) isOf(ev *event, p *proc) bool {
	return ev.Process != nil && int(ev.Process.PID) == p.PID && ev.Time+v.q.Capabilities().Stamps.Early >= p.before
}

// of returns the delivered events of p and its threads.
func (v *view) of(p *proc) (list []*event) {
	for _, ev := range v.events {
		if v.isOf(ev, p) {
			list = append(list, ev)
		}
	}
	return list
}

// count counts p's events that have one of the kinds.
func (v *view) count(p *proc, kinds engine.Events) (n int) {
	for _, ev := range v.of(p) {
		if ev.Events&kinds != 0 && !ev.Thread {
			n++
		}
	}
	return n
}

// history lists p's events for a message.
func (v *view) history(p *proc) (s string) {
	for _, ev := range v.of(p) {
		s += fmt.Sprintf("[%s tid %d at %d]", ev.Events, ev.TID, ev.Time)
	}
	if s == "" {
		return "no events"
	}
	return s
}

// mark notes the counters of all queues: the test is about what comes from now on.
func (t *test) mark() { t.each(func(v *view) { v.before = v.stats() }) }

// stats returns the queue's counters.
func (v *view) stats() quark.Stats {
	s, err := v.q.Stats()
	if err != nil {
		v.Fatalf("statistics: %v", err)
	}
	return s
}

// counted waits until everything produced is counted as inserted or as lost. The sums agree only
// at some moments, because other processes make events all the time.
func (v *view) counted() (s quark.Stats) {
	v.await("produced = inserted + lost", func() bool {
		s = v.stats()
		return s.Source.Produced == s.Insertions+s.Lost()
	})
	return s
}

// lost returns the number of lost events, without those that the kernel skipped because programs
// were preempted: most of these are of other processes, or of threads that no queue reports. Where
// one is of a test's own process the test misses the event itself.
func lost(s quark.Stats) uint64 { return s.Lost() - s.Source.Lost[engine.LossSkipped] }
