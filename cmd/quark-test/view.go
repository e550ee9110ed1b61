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
	atOpen quark.Stats    // counters when watch or share opened the queue
	before quark.Stats    // counters at the last call of markCounters
	events []*quark.Event // clones of all events delivered in the test, in order
}

// pump reads the events that the queue can deliver now.
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

// await reads events of this queue until cond holds. Between calls of cond, which take half a
// millisecond in a guest, it sleeps until the queue has events. The sleep is short, because cond
// may not depend on events.
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

// awaitEvent reads events until an event of p satisfies want, and returns the first such event.
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

// hasKinds returns a condition for awaitEvent: the event has all of the kinds.
func hasKinds(kinds engine.Events) func(*event) bool {
	return func(ev *event) bool { return ev.Events&kinds == kinds && !ev.Thread }
}

// awaitExit reads events until p's EXIT, and returns it.
func (v *view) awaitExit(p *proc) *event { return v.awaitEvent(p, "EXIT", hasKinds(engine.EventExit)) }

// isOf reports whether an event is of p, rather than of an earlier process with p's pid.
func (v *view) isOf(ev *event, p *proc) bool {
	return ev.Process != nil && int(ev.Process.PID) == p.PID && ev.Time+v.q.Capabilities().Stamps.Early >= p.before
}

// markCounters stores the counters of all queues, so that the test can compare later counters.
func (t *test) markCounters() { t.eachQueue(func(v *view) { v.before = v.stats() }) }

// stats returns the queue's counters.
func (v *view) stats() quark.Stats {
	s, err := v.q.Stats()
	if err != nil {
		v.Fatalf("statistics: %v", err)
	}
	return s
}

// awaitBalance waits until produced = inserted + lost, and returns the counters. Other processes
// make events all the time, so the sums agree only at times.
func (v *view) awaitBalance() (s quark.Stats) {
	v.await("produced = inserted + lost", func() bool {
		s = v.stats()
		return s.Source.Produced == s.Insertions+s.Lost()
	})
	return s
}

// lostEvents returns the number of lostEvents events without LossSkipped. The kernel skips an eBPF
// program that preempts another one. Most skipped events are of other processes, or of threads that
// no queue reports. A skipped event of the test's own process fails the test, because the event is
// missing.
func lostEvents(s quark.Stats) uint64 { return s.Lost() - s.Source.Lost[engine.LossSkipped] }
