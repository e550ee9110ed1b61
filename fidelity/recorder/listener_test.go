package recorder

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

type queue struct {
	Queue
	delay time.Duration // delay of exit messages
}

func (q queue) Stats() (s engine.Stats, err error) { return s, nil }

func (q queue) Backend() string { return "x" }

func (q queue) Capabilities() *engine.CapabilityTable {
	return &engine.CapabilityTable{Stamps: engine.StampError{Ends: uint64(q.delay)}}
}

// The message of an end can come after messages of processes that started later. So the listener
// waits for each end separately, until its message has arrived, is lost or cannot come.
func TestAwaitsLateEnd(t *testing.T) {
	now := truth.Clock()
	process := func(kind engine.Kind, ago time.Duration) *truth.Process {
		at := now - uint64(ago)
		return &truth.Process{PID: 7, Events: []*truth.Event{
			{Kind: engine.KindFork, Earliest: at - 100, Latest: at - 90}, {Kind: kind, Earliest: at - 10, Latest: at},
		}}
	}
	end := func(pid uint32, time uint64) *engine.Event {
		return &engine.Event{Events: engine.EventExit, Time: time, Process: &engine.Process{PID: pid}}
	}
	gap := &engine.Event{Events: engine.EventGap, Gap: engine.Gap{From: now - 5, To: now}, Process: new(engine.Process)}
	for _, c := range []struct {
		name      string
		delay     time.Duration
		process   *truth.Process
		delivered *engine.Event
		awaits    bool
	}{
		{"the end of another", 2 * time.Second, process(engine.KindExit, 0), end(8, now+1), true},
		{"its end, late", 2 * time.Second, process(engine.KindExit, 0), end(7, now+uint64(time.Second)), false},
		{"its fork, joined", 2 * time.Second, process(engine.KindExit, 0), end(7, now-95), false},
		{"the end of the process before", 2 * time.Second, process(engine.KindExit, 0), end(7, now-101), true},
		{"a gap", 2 * time.Second, process(engine.KindExit, 0), gap, false},
		{"nothing for 3 s", 2 * time.Second, process(engine.KindExit, 3*time.Second), end(8, now), false},
		{"no end", 2 * time.Second, process(engine.KindExec, 0), end(8, now), false},
		{"the end of another", 0, process(engine.KindExit, 0), end(8, now+1), false},
	} {
		l := NewListener(queue{delay: c.delay}, 0, false)
		l.storeEvent(c.delivered)
		if got := l.awaits(c.process); got != c.awaits {
			t.Errorf("%s, delayed by %v: got awaits %v, want %v", c.name, c.delay, got, c.awaits)
		}
	}
}

func (q queue) Lookup(uint32) *engine.Process { return nil }

func (q queue) LookupIdentity(engine.Identity) *engine.Process { return nil }

// Only the EXIT of a thread may have a process that is not in the table.
func TestProcessNotInTable(t *testing.T) {
	for _, ev := range []engine.Event{
		{Events: engine.EventExit}, {Events: engine.EventFork, Thread: true}, {Events: engine.EventExit, Thread: true},
	} {
		for _, known := range []engine.Fields{0, engine.FieldStart.Set()} {
			ev.Process = &engine.Process{PID: 7, Task: engine.Task{Known: known}}
			got := NewListener(queue{}, 0, true).compareTable(&ev)
			if ok := ev.Thread && ev.Events == engine.EventExit; ok != (got == "") {
				t.Errorf("%s, thread %v, known %s: got difference %q, want any %v", ev.Events, ev.Thread, known, got, !ok)
			}
		}
	}
}
