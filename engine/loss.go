package engine

// This file handles doubts about a process after a gap: a lost event can have changed all its
// fields, and the pid can belong to another process by now.

// Sight is the result of a check of a pid.
type Sight uint8

const (
	SightUnknown Sight = iota // the check was not possible
	SightGone                 // no process has the pid, or only one that has ended
	SightAlive                // a process has it, with the start time that was returned
)

// gap makes the state of all processes doubtful that is of before the end of g.
func (t *table) gap(g *Gap) { t.gapTo = max(t.gapTo, g.To) }

// refresh marks values that a lost event may have changed as cached.
func (t *table) refresh(p *process) {
	if p.asOf <= t.gapTo && (!p.Exited || p.Inferred) {
		p.Cached |= p.Known &^ constant
		p.missed = true
		p.dispel(FieldsImage)
	}
}

// doubtful reports whether the pid of p may belong to another process: its end may have been lost,
// or the source reports neither this end nor the next birth.
func (t *table) doubtful(p *process) bool {
	if !t.births && (!t.ends || p.Exited) {
		return true
	}
	return t.gapTo != 0 && p.asOf <= t.gapTo && p.checked <= t.gapTo && (!p.Exited || p.Inferred)
}

// sameLife reports whether two events of one pid certainly belong to one process. joined has the
// kinds that have joined the first.
func (t *table) sameLife(head, next *RawEvent, joined Events) bool {
	return t.births || t.ends && joined&EventExit == 0 || head.Task.Known&next.Task.Known&FieldStart.Set() != 0
}

// check looks whether p still has its pid, and reports whether that is certain.
func (t *table) check(p *process) bool { return t.sight(p) == SightAlive }

// sight checks p's pid. SightGone also means that another process has it.
func (t *table) sight(p *process) Sight {
	if t.look == nil {
		return SightUnknown
	}
	now := t.clock.Now()
	start, sight := t.look(p.PID)
	if sight != SightAlive {
		return sight
	}
	if !p.Known.Has(FieldStart) {
		return SightUnknown
	}
	if !p.sameStart(start, ProcStartUnit) {
		return SightGone
	}
	t.ownDoubts(p).checked = now
	return SightAlive
}

// infer ends p, which had ended by a time. Its EXIT was lost.
func (t *table) infer(p *process, time, now uint64) {
	if !p.Exited {
		p.Inferred = true
		t.markExited(p, time, now)
	}
}

// guessed reports whether p is a process of its own only for lack of proof: the events that made
// it, by a time, have no start time, and may belong to an older process of the pid.
func (p *process) guessed(time uint64) bool {
	return !p.Known.Has(FieldStart) && !p.forked && (!p.Exited || p.Inferred) && p.born <= time
}

// guessAgain replaces the guessed process of r's pid with a new one, if that would be as uncertain,
// and returns the new one, else nil. Without it, each event of a process that has ended since a gap
// would leave one more process to check at the next gap.
func (t *table) guessAgain(r *RawEvent) *process {
	if r.Kind == KindFork || r.Task.Known.Has(FieldStart) {
		return nil
	}
	p := t.byPID.get(r.PID)
	if p == nil || p.Exited || !p.guessed(r.Time) {
		return nil
	}
	guesses := p.guesses | p.Known
	t.remove(p)
	p = t.add(r.PID, r.Time)
	t.ownDoubts(p).guesses = guesses
	return p
}

// revive undoes the inferred end of p, which has an event at a time. The guessed processes up to
// then are p: the fields that their events set are unknown of p, and the rest cached.
func (t *table) revive(p *process, time uint64) {
	for o := p.younger; o != nil; {
		next := o.younger
		if o.guessed(time) {
			p.Known &^= (o.Known | o.guesses) &^ constant
			p.Truncated &= p.Known
			p.Cached = p.Known &^ constant
			p.dispel(FieldsImage)
			p.Marks.add(Marks{Set: o.Marks.Set})
			o.found()
			t.cancelExit(o)
			t.unlink(o)
			t.release(o)
		}
		o = next
	}
	if p.younger == nil {
		p.found()
		t.cancelExit(p)
	}
}
