package engine_test

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/filter"
)

const second = uint64(time.Second)

// changingClock returns a clock with a suspend of 5 s at 10 s, and wall time set two hours ahead at
// 20 s.
func changingClock() *engine.Clock {
	wall := time.Unix(1000, 0)
	c := engine.NewClock(nil, engine.Host{}, engine.Offset{From: 3, Boot: 2 * second, Wall: wall})
	c.Add(engine.Offset{From: 10 * second, Boot: 7 * second, Wall: wall.Add(5 * time.Second)})
	c.Add(engine.Offset{From: 20 * second, Boot: 7 * second, Wall: wall.Add(5*time.Second + 2*time.Hour)})
	return c
}

func TestClock(t *testing.T) {
	c := changingClock()
	for _, tt := range []struct{ mono, boot, wall uint64 }{
		{0, 2, 1000},
		{9, 11, 1009},
		{10, 17, 1015},
		{19, 26, 1024},
		{20, 27, 8225},
		{30, 37, 8235},
	} {
		if got := c.Boot(tt.mono * second); got != tt.boot*second {
			t.Errorf("boot time of %d s: got %d ns, want %d s", tt.mono, got, tt.boot)
		}
		if got := c.Mono(tt.boot * second); got != tt.mono*second {
			t.Errorf("monotonic time of boot time %d s: got %d ns, want %d s", tt.boot, got, tt.mono)
		}
		if got := c.At(tt.mono * second); got.UnixNano() != int64(tt.wall*second) {
			t.Errorf("wall time of %d s: got %v, want %d s", tt.mono, got, tt.wall)
		}
	}
	if got := c.Mono(second); got != 0 {
		t.Errorf("monotonic time of a boot time before time 0: got %d, want 0", got)
	}
}

// The newest offsets are kept, and the zero clock has none.
func TestClockKeepsNewest(t *testing.T) {
	c := new(engine.Clock)
	if c.At(5) != (time.Time{}).Add(5) || c.Boot(5) != 5 || c.Mono(5) != 5 {
		t.Error("the zero clock has an offset")
	}
	for i := range uint64(10_000) {
		c.Add(engine.Offset{From: i * 10, Boot: i})
	}
	for i := range uint64(100) {
		i += 9900
		if got := c.Boot(i*10 + 5); got != i*10+5+i {
			t.Errorf("boot time in offset %d: got %d", i, got)
		}
	}
}

// Durations include suspends, and filters use the same durations. The wall times of one event use
// one offset.
func TestClockOfEvents(t *testing.T) {
	now := 40 * second
	clock := changingClock()
	clock.Now = func() uint64 { return now }
	where, err := filter.Parse("duration > 12s")
	if err != nil {
		t.Fatal(err)
	}
	m, err := where.Matcher(clock)
	if err != nil {
		t.Fatal(err)
	}
	src := new(enginetest.Source)
	e, err := engine.New(src, clock, engine.Options{Judge: m.Judge})
	if err != nil {
		t.Fatal(err)
	}
	known := engine.SetOf(engine.FieldStart)
	// Born at 4 s, which is 1004 s of wall time.
	task := engine.Task{Known: known, Start: 6 * second, StartUnit: 1}
	src.Push(
		enginetest.Raw{Kind: engine.KindFork, PID: 7, Time: 4 * second, Task: task},
		enginetest.Raw{Kind: engine.KindExit, PID: 7, Time: 12 * second, Task: engine.Task{
			Known: known.With(engine.FieldExit), Start: task.Start, StartUnit: 1, Exit: engine.Exit{Time: 12 * second},
		}},
	)
	ev, err := e.Get()
	if err != nil {
		t.Fatal(err)
	}
	// 13 s, including a suspend of 5 s.
	start, end := clock.Started(ev.Process), clock.At(ev.Process.Exit.Time)
	if ev.Wall.Unix() != 1004 || start.Unix() != 1004 || end.Unix() != 1017 || !ev.Events.Has(engine.EventExit) {
		t.Errorf("%s: got time %v, start %v, end %v, want 1004, 1004 and 1017 s", ev.Events, ev.Wall, start, end)
	}
}
