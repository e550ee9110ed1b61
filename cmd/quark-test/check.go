package main

import "github.com/quark-linux/quark/engine"

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
}

// checkLife checks p's life: see wantLives. The scores of scenarios are about times.
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
	v.checkExit(exit, p, true)
}
