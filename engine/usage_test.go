package engine_test

import (
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// Only the EXIT of a process has its usage.
func TestUsage(t *testing.T) {
	ends := func(pid uint32, time uint64, u engine.Usage) enginetest.Raw {
		e := exited(raw(exit, pid, time), 0)
		e.Task.Known |= engine.FieldsUsage
		e.Usage = u
		return e
	}
	r := newRig(t, engine.Options{Filter: func(ev *engine.Event) bool { return ev.Process.PID != 2 }})
	first, third := engine.Usage{UserTime: 1, SystemTime: 2, PeakRSS: 3, RChar: 4, WChar: 5, ReadBytes: 6, WriteBytes: 7}, engine.Usage{UserTime: 8}
	r.src.Push(raw(fork, 1, 0), raw(exec, 1, 1), ends(1, 2, first), ends(2, 3, engine.Usage{UserTime: 9}), ends(3, 4, third))
	p := r.onlyEvent(t).Process
	if p.Known&engine.FieldsUsage != engine.FieldsUsage || p.Usage != first {
		t.Errorf("got usage %+v of FORK+EXEC+EXIT, known fields %s, want %+v", p.Usage, p.Known, first)
	}
	clone := p.Clone()
	next := r.onlyEvent(t).Process
	if next.Usage != third || clone.Usage != first {
		t.Errorf("got usage %+v of the next EXIT and %+v of the clone, want %+v and %+v", next.Usage, clone.Usage, third, first)
	}
	for _, p := range []*engine.Process{r.Lookup(1), r.Lookup(2)} {
		if p.Usage != (engine.Usage{}) || p.Known&engine.FieldsUsage != 0 {
			t.Errorf("pid %d: got usage %+v in the table, want none", p.PID, p.Usage)
		}
	}
}
