package hostclock

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// Follow compares the clocks once a second, and a new offset holds from the call before.
func TestFollow(t *testing.T) {
	f := New()
	defer f.Close()
	measured := f.clock.Newest()
	calls := 0
	f.measure = func() engine.Offset { calls++; return measured }
	f.due = ^uint64(0)
	f.alarm.rang() // another program may have set the clock
	f.Follow()
	if calls != 0 {
		t.Fatal("the clocks were compared before the comparison was due")
	}
	measured.Boot += uint64(time.Hour)
	before := f.checked
	f.due = 0
	f.Follow()
	if o := f.clock.Newest(); o.Boot != measured.Boot || o.From != before {
		t.Errorf("offset %+v, want a suspend of an hour from %d on", o, before)
	}
	if f.due <= clock.Monotonic() {
		t.Error("the next comparison is due at once")
	}
	measured.Wall = measured.Wall.Add(tolerance / 2)
	f.due = 0
	if f.Follow(); f.clock.Newest().Wall.Equal(measured.Wall) {
		t.Error("an offset within the tolerance was added")
	}
	measured.Wall = measured.Wall.Add(time.Second)
	f.due = 0
	if f.Follow(); !f.clock.Newest().Wall.Equal(measured.Wall) {
		t.Error("the wall clock was set, but the offset is unchanged")
	}
}

// Steady clocks get no second offset, however often they are compared.
func TestSteady(t *testing.T) {
	f := New()
	defer f.Close()
	first := f.clock.Newest()
	for range 1000 {
		f.due = 0
		f.Follow()
	}
	if o := f.clock.Newest(); o != first {
		t.Errorf("the offsets changed from %+v to %+v, want no change", first, o)
	}
}
