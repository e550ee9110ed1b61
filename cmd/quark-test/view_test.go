package main

import (
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// An event is of a process by its time; by the start time where the time can be early.
func TestIsOf(t *testing.T) {
	q, err := quark.New(new(enginetest.Source), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	early := engine.StampError{Early: 1_000_000_000}
	const before, unit = 5_000_000_000, 10_000_000
	boot := before + q.Clock().Newest().Boot
	p := &proc{Process: &bare.Process{PID: 7}, before: before}
	for _, c := range []struct {
		name        string
		stamps      engine.StampError
		pid         uint32
		time, start uint64 // a start of 0 is unknown
		want        bool
	}{
		{"its own", engine.StampError{}, 7, before, 0, true},
		{"an earlier one's", engine.StampError{}, 7, before - 1, 0, false},
		{"another's", early, 8, before, 0, false},
		{"of before its call, by the clock of the latest interrupt", early, 7, before - 8_000_000, 0, true},
		{"the same, and it is shown", early, 7, before - 8_000_000, boot, true},
		{"an earlier one's, which is shown", early, 7, before + 1, boot - unit, false},
		{"one of long before", early, 7, before - 2_000_000_000, 0, false},
	} {
		ev := &event{Process: new(engine.Process), Time: c.time}
		ev.Process.PID = c.pid
		if c.start != 0 {
			ev.Process.Start, ev.Process.StartUnit = c.start, unit
			ev.Process.Known = engine.FieldStart.Set()
		}
		v := &view{q: q}
		q.Capabilities().Stamps = c.stamps
		if got := v.isOf(ev, p); got != c.want {
			t.Errorf("%s, %+v: %v", c.name, c.stamps, got)
		}
	}
}
