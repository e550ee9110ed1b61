package main

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/clock"
)

// truth returns what /proc shows of a process that stands still.
func (t *test) truth(pid int) truth.State {
	proc, err := truth.OpenProc()
	if err != nil {
		t.Fatalf("read the truth: %v", err)
	}
	defer proc.Close()
	_, s, err := proc.Read(itoa(pid))
	if err != nil {
		t.Fatalf("read the truth: %v", err)
	}
	return s
}

// check compares the known fields of a process with their ground truth. The fields in
// need have to be known.
func (v *view) check(what string, p *engine.Process, want truth.State, need engine.Fields) {
	for f := range engine.Field(engine.NumFields) {
		if want.Known.Has(f) {
			v.checkField(what, p, f, want.Value[f], need.Has(f))
		}
	}
}

func (v *view) checkField(what string, p *engine.Process, f engine.Field, want string, need bool) {
	c := v.q.Capabilities().Fields[f]
	switch got := truth.ValueOf(p, f); {
	case !p.Known.Has(f):
		if need {
			v.Errorf("%s: %s is unknown, want %q (%s: %s)", what, f, want, c.Origin, c.Via)
		}
	case p.Truncated.Has(f):
		v.Errorf("%s: %s is marked as cut: %q", what, f, got)
	case got != want:
		v.Errorf("%s: %s is %q, want %q (%s: %s)", what, f, got, want, c.Origin, c.Via)
	}
}

// checkExit compares the exit in an event with what wait4 returned. Unless need is set, or where
// the backend has it from /proc, if at all, it may be unknown.
func (v *view) checkExit(ev *event, p *proc, need bool) {
	q := ev.Process
	if !q.Exited {
		v.Errorf("pid %d: not marked as ended after EXIT", p.PID)
	}
	if !q.Known.Has(engine.FieldExit) {
		if c := v.q.Capabilities().Fields[engine.FieldExit]; need && c.Origin == engine.OriginKernel {
			v.Errorf("pid %d: exit status is unknown, want %#x", p.PID, p.status)
		}
		return
	}
	x := q.Task.Exit
	if x.WaitStatus != int32(p.status) {
		v.Errorf("pid %d: wait status is %#x, wait4 says %#x", p.PID, x.WaitStatus, p.status)
	}
	signal := max(int(p.status.Signal()), 0) // -1 if none
	if x.Code() != max(p.status.ExitStatus(), 0) || x.Signal() != signal || x.CoreDumped() != p.status.CoreDump() {
		v.Errorf("pid %d: exit code %d, signal %d, core %v, wait4 says %#x", p.PID, x.Code(), x.Signal(), x.CoreDumped(), p.status)
	}
	if x.Time+v.stamps().Early < p.before || x.Time > clock.Monotonic() {
		v.Errorf("pid %d: exit time %d is not between %d, its birth, and now", p.PID, x.Time, p.before)
	}
}

// checkStart compares the start time, if known, with the times around the fork.
func (v *view) checkStart(ev *event, p *proc) {
	q := ev.Process
	if !q.Known.Has(engine.FieldStart) {
		return
	}
	offset := v.q.Clock().Newest().Boot
	if q.Start+q.StartUnit <= p.before+offset || q.Start > p.born+offset {
		v.Errorf("pid %d: started at %d (precision %d), it was between %d and %d", p.PID, q.Start, q.StartUnit, p.before+offset, p.born+offset)
	}
}

// checkBirth compares the time of a FORK with the times around the fork.
func (v *view) checkBirth(ev *event, p *proc) {
	v.checkStart(ev, p)
	if at := v.stamps(); ev.Time+at.Early < p.before || ev.Time > p.born+at.Late {
		v.Errorf("pid %d: FORK at %d, it was between %d and %d", p.PID, ev.Time, p.before, p.born)
	}
}

// checkLife checks p's life: see wantLives.
func (v *view) checkLife(p *proc, execs int) {
	for _, want := range []struct {
		kind engine.Events
		n    int
	}{{engine.EventFork, 1}, {engine.EventExec, execs}, {engine.EventExit, 1}} {
		if got := v.count(p, want.kind); got != want.n {
			v.Errorf("pid %d: %d events with %s, want %d: %s", p.PID, got, want.kind, want.n, v.history(p))
		}
	}
	list, exit := v.of(p), v.exit(p)
	if !list[0].Events.Has(engine.EventFork) || list[len(list)-1] != exit {
		v.Errorf("pid %d: events out of order: %s", p.PID, v.history(p))
	}
	v.checkBirth(list[0], p)
	v.checkExit(exit, p, true)
}
