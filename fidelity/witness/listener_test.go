package witness

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

type queue struct {
	Queue
	backend string
	held    int // events that it has not delivered
}

func (q queue) Stats() (s engine.Stats, err error) {
	s.Buffered = q.held
	return s, nil
}

func (q queue) Backend() string { return q.backend }

// The message of an end can come after those of processes that were started later, so that it is
// waited for by itself: until it has come, is lost or cannot come any more.
func TestAwaitsLateEnd(t *testing.T) {
	now := truth.Clock()
	life := func(kind engine.Kind, ago time.Duration) *truth.Life {
		at := now - uint64(ago)
		return &truth.Life{PID: 7, Events: []*truth.Event{
			{Kind: engine.KindFork, Earliest: at - 100, Latest: at - 90}, {Kind: kind, Earliest: at - 10, Latest: at},
		}}
	}
	end := func(pid uint32, time uint64) *engine.Event {
		return &engine.Event{Events: engine.EventExit, Time: time, Process: &engine.Process{PID: pid}}
	}
	gap := &engine.Event{Events: engine.EventGap, Gap: engine.Gap{From: now - 5, To: now}, Process: new(engine.Process)}
	for _, c := range []struct {
		name, backend string
		life          *truth.Life
		delivered     *engine.Event
		awaits        bool
	}{
		{"the end of another", "cnproc", life(engine.KindExit, 0), end(8, now+1), true},
		{"its end, late", "cnproc", life(engine.KindExit, 0), end(7, now+uint64(time.Second)), false},
		{"its whole life", "cnproc", life(engine.KindExit, 0), end(7, now-95), false},
		{"the end of the process before", "cnproc", life(engine.KindExit, 0), end(7, now-101), true},
		{"a gap", "cnproc", life(engine.KindExit, 0), gap, false},
		{"nothing for 3 s", "cnproc", life(engine.KindExit, 3*time.Second), end(8, now), false},
		{"no end", "cnproc", life(engine.KindExec, 0), end(8, now), false},
		{"the end of another", "ebpf", life(engine.KindExit, 0), end(8, now+1), false},
	} {
		l := Listen(queue{backend: c.backend}, 0, false)
		l.keep(c.delivered)
		if got := l.awaits(c.life); got != c.awaits {
			t.Errorf("%s, %s: awaits the end: %v, want %v", c.backend, c.name, got, c.awaits)
		}
	}
}

// A reader that had no CPU has read as late as one that was paused: what is stamped when it is
// received can be so much later.
func TestReaderWithoutCPU(t *testing.T) {
	l := Listen(queue{backend: "taskstats"}, 0, false)
	for _, c := range []struct {
		now  time.Duration
		want time.Duration
	}{{time.Hour, 0}, {time.Hour + pulse, 0}, {time.Hour + 2*pulse + 3*time.Second, 3 * time.Second}, {time.Hour + 2*pulse + 4*time.Second, 3 * time.Second}} {
		if l.begins(uint64(c.now)); l.longest != uint64(c.want) {
			t.Errorf("at %v nobody has read for %v, want %v", c.now, time.Duration(l.longest), c.want)
		}
	}
}

// What one reading of /proc finds is delivered from the beginning of its gap to its end.
func TestMissedWhole(t *testing.T) {
	gap := &engine.Event{Events: engine.EventGap, Time: 100, Gap: engine.Gap{Cause: engine.LossMissed, From: 100, To: 200}, Process: new(engine.Process)}
	exit := &engine.Event{Events: engine.EventExit, Time: 201, Process: &engine.Process{PID: 7}}
	for _, c := range []struct {
		name      string
		at        uint64
		held      int
		delivered []*engine.Event
		want      bool
	}{
		{"no gap", 150, 0, nil, false},
		{"a gap of another time", 250, 0, []*engine.Event{gap}, false},
		{"the rest is still held", 150, 1, []*engine.Event{gap}, false},
		{"nothing is held", 150, 0, []*engine.Event{gap}, true},
		{"the rest has come", 150, 1, []*engine.Event{gap, exit}, true},
	} {
		l := Listen(queue{backend: "procpoll", held: c.held}, 0, false)
		for _, ev := range c.delivered {
			l.keep(ev)
		}
		if got := l.missed(c.at); got != c.want {
			t.Errorf("%s: missed %v, want %v", c.name, got, c.want)
		}
	}
}
