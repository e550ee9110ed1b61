package main

import "github.com/quark-linux/quark/engine"

// checkExit compares the exit in an event with the status from wait4. The exit may be unknown if
// the backend can only read it from /proc.
func (v *view) checkExit(ev *event, p *proc) {
	q := ev.Process
	if !q.Exited {
		v.Errorf("pid %d: not marked as ended after EXIT", p.PID)
	}
	if !q.Known.Has(engine.FieldExit) {
		if c := v.q.Capabilities().Fields[engine.FieldExit]; c.Origin == engine.OriginKernel {
			v.Errorf("pid %d: exit status unknown, want %#x", p.PID, p.status)
		}
		return
	}
	x := q.Task.Exit
	if x.WaitStatus != int32(p.status) {
		v.Errorf("pid %d: got wait status %#x, want %#x (wait4)", p.PID, x.WaitStatus, p.status)
	}
	signal := max(int(p.status.Signal()), 0) // -1 if none
	if x.Code() != max(p.status.ExitStatus(), 0) || x.Signal() != signal || x.CoreDumped() != p.status.CoreDump() {
		v.Errorf("pid %d: got exit code %d, signal %d, core %v, want wait status %#x (wait4)", p.PID, x.Code(), x.Signal(), x.CoreDumped(), p.status)
	}
}

// checkProcess checks all events of p: see checkProcesses. It checks no times, because the scores
// of scenarios do.
func (v *view) checkProcess(p *proc, execs int) {
	for _, want := range []struct {
		kind engine.Events
		n    int
	}{{engine.EventFork, 1}, {engine.EventExec, execs}, {engine.EventExit, 1}} {
		if got := v.count(p, want.kind); got != want.n {
			v.Errorf("pid %d: got %d events with %s, want %d: %s", p.PID, got, want.kind, want.n, v.history(p))
		}
	}
	list, exit := v.eventsOf(p), v.awaitExit(p)
	if !list[0].Events.Has(engine.EventFork) || list[len(list)-1] != exit {
		v.Errorf("pid %d: events out of order: %s", p.PID, v.history(p))
	}
	v.checkExit(exit, p)
}
