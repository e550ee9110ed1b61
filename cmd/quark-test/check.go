package main

import (
	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// check compares what is known of a process with the truth, except for its
// exit. Fields in need have to be known. Whatever the backend has no way to know
// has to be unknown.
func (t *test) check(what string, p *engine.Process, want *facts, need engine.Fields) {
	if int(p.PID) != want.pid {
		t.Errorf("%s: pid is %d, want %d", what, p.PID, want.pid)
	}
	for f := range engine.Field(engine.NumFields) {
		if f != engine.FieldExit {
			t.checkField(what, p, f, want.value[f], need.Has(f))
		}
	}
}

func (t *test) checkField(what string, p *engine.Process, f engine.Field, want string, need bool) {
	c := t.q.Capabilities().Fields[f]
	switch got := valueOf(p, f); {
	case !p.Known.Has(f):
		if need {
			t.Errorf("%s: %s is unknown, want %q (%s: %s)", what, f, want, c.Origin, c.Via)
		}
	case p.Truncated.Has(f):
		t.Errorf("%s: %s is marked as cut: %q", what, f, got)
	case got != want:
		t.Errorf("%s: %s is %q, want %q (%s: %s)", what, f, got, want, c.Origin, c.Via)
	}
}

// checkExit compares the exit in an event with what wait4 returned. If need is
// not set it may be unknown.
func (t *test) checkExit(ev *quark.Event, p *proc, need bool) {
	q := ev.Process
	if !q.Exited {
		t.Errorf("pid %d: not marked as ended after EXIT", p.PID)
	}
	if !q.Known.Has(engine.FieldExit) {
		if need {
			t.Errorf("pid %d: exit status is unknown, want %#x", p.PID, p.status)
		}
		return
	}
	x := q.Task.Exit
	if x.WaitStatus != int32(p.status) {
		t.Errorf("pid %d: wait status is %#x, wait4 says %#x", p.PID, x.WaitStatus, p.status)
	}
	if p.status.Exited() && (x.Code() != p.status.ExitStatus() || x.Signal() != 0) {
		t.Errorf("pid %d: exit code %d, signal %d, want %d, 0", p.PID, x.Code(), x.Signal(), p.status.ExitStatus())
	}
	if p.status.Signaled() && (x.Signal() != int(p.status.Signal()) || x.CoreDumped() != p.status.CoreDump() || x.Code() != 0) {
		t.Errorf("pid %d: signal %d, core %v, want %d, %v", p.PID, x.Signal(), x.CoreDumped(), p.status.Signal(), p.status.CoreDump())
	}
	if x.Time < p.before || x.Time > now() {
		t.Errorf("pid %d: exit time %d is not between %d, its birth, and now", p.PID, x.Time, p.before)
	}
}

// checkStart compares the start time, if it is known, with the times around the
// fork.
func (t *test) checkStart(ev *quark.Event, p *proc) {
	q := ev.Process
	if !q.Known.Has(engine.FieldStart) {
		return
	}
	offset := t.q.Clock().BootOffset
	if q.Start+q.StartUnit <= p.before+offset || q.Start > p.born+offset {
		t.Errorf("pid %d: started at %d (precision %d), it was between %d and %d", p.PID, q.Start, q.StartUnit, p.before+offset, p.born+offset)
	}
}

// checkBirth compares the time of a FORK with the times around the fork.
func (t *test) checkBirth(ev *quark.Event, p *proc) {
	t.checkStart(ev, p)
	if ev.Time < p.before || ev.Time > p.born {
		t.Errorf("pid %d: FORK at %d, it was between %d and %d", p.PID, ev.Time, p.before, p.born)
	}
}
