package engine

// This file handles doubts about a process after a gap: a lost event can have changed all its
// fields, and the pid can belong to another process by now.

// PIDState is the result of a check of a pid.
type PIDState uint8

const (
	PIDUnknown PIDState = iota // the check was not possible
	PIDGone                    // no process has the pid, or only one that has ended
	PIDAlive                   // a process has it, with the start time that was returned
)

// gap makes all process state from before the end of g doubtful.
func (t *table) gap(g *Gap) { t.gapTo = max(t.gapTo, g.To) }

// lost reports whether the end of p may have been lost.
func (t *table) lost(p *process) bool {
	return p.life != ended && t.gapTo != 0 && max(p.asOf, p.checked) <= t.gapTo
}

// refresh marks as cached the values that a lost event may have changed.
func (t *table) refresh(p *process) {
	if p.asOf <= t.gapTo && p.life != ended {
		p.Cached |= p.Known &^ constant
	}
}

// doubtful reports whether the pid of p may belong to another process: the EXIT of p may have been
// lost, or the source does not report it and the next FORK.
func (t *table) doubtful(p *process) bool {
	return t.lost(p) || !t.births && (!t.ends || p.life != living)
}

// sameLife reports whether two events of one pid certainly belong to one process. joined has the
// kinds that already joined head.
func (t *table) sameLife(head, next *RawEvent, joined Events) bool {
	return t.births || t.ends && joined&EventExit == 0 || head.Task.Known&next.Task.Known&FieldStart.Set() != 0
}

// check reports whether p certainly still has its pid.
func (t *table) check(p *process) bool { return t.state(p) == PIDAlive }

// state checks p's pid. It returns PIDGone also if another process has the pid.
func (t *table) state(p *process) PIDState {
	if t.checkPID == nil {
		return PIDUnknown
	}
	now := t.clock.Now()
	start, state := t.checkPID(p.PID)
	if state != PIDAlive {
		return state
	}
	if !p.Known.Has(FieldStart) {
		return PIDUnknown
	}
	if !p.sameStart(start, ProcStartUnit) {
		return PIDGone
	}
	p.checked = now
	return PIDAlive
}
