package engine

// Verdict is the decision of [Options.Judge] about an event.
type Verdict uint8

const (
	VerdictPass   Verdict = iota // it is delivered
	VerdictUnsure                // it is delivered, as the value that would decide is unknown
	VerdictDrop                  // it is dropped, and counted
)

// Marks are up to 32 bits that [Options.Judge] attaches to a process. Their meaning is its own. A
// child inherits the marks of its parent, and of its creator if that is another process
// (CLONE_PARENT). A process that is older than the source inherits the marks of its parent at the
// start.
type Marks struct {
	Set   uint32
	Maybe uint32 // the bits that may be set
}

// add adds the marks in o to m.
func (m *Marks) add(o Marks) {
	m.Set |= o.Set
	m.Maybe = (m.Maybe | o.Maybe) &^ m.Set
}

// noMarksKnown has the marks of a process whose parent is unknown: any mark is possible.
var noMarksKnown = Marks{Maybe: ^uint32(0)}

// inheritMarks gives the forked process p the marks of its parent and of its creator. An uncertain
// parent or creator is nil. If the source does not report the creator, the parent counts as the
// creator.
func (p *process) inheritMarks(parent, creator *process, fork *RawEvent) {
	if parent == nil || creator == nil && fork.Creator != 0 {
		p.Marks.add(noMarksKnown)
	}
	for _, o := range [...]*process{parent, creator} {
		if o != nil {
			p.Marks.add(o.Marks)
		}
	}
}

// adoptMarks gives p, whose birth was not reported, the marks of its current parent. Process 1
// adopts orphans: an earlier parent may have had other marks, so these stay unknown.
func (t *table) adoptMarks(p *process) {
	if t.judge == nil {
		return
	}
	p.Marks.add(noMarksKnown)
	parent := t.parent(p)
	if parent == nil {
		return
	}
	p.Marks.add(Marks{Set: parent.Marks.Set})
	if parent.PID != 1 {
		p.Marks.Maybe &= parent.Marks.Maybe
	}
}

// settleMarks lets the judge mark a process from /proc, after its parent.
func (t *table) settleMarks(p *process) {
	switch parent := t.byPID.get(p.PPID); {
	case !p.Known.Has(FieldPPID), parent == nil && p.PPID != 0:
		p.Marks.add(noMarksKnown)
	case parent != nil && parent != p:
		p.Marks.add(parent.Marks)
	}
	v := &t.judged
	t.fill(v, p)
	t.judge(&Event{Process: v, TID: p.PID, Time: p.asOf, CPU: AllCPUs})
	p.Marks = v.Marks
}

// passes reports whether an event of p is to be delivered.
func (e *Engine) passes(ev *Event, p *process) bool {
	switch e.judge(ev, p) {
	case VerdictDrop:
		e.filtered++
		return false
	case VerdictUnsure:
		e.unsure++
	}
	if e.opts.Filter != nil && !e.opts.Filter(ev) {
		e.filtered++
		return false
	}
	return true
}

// judge returns the verdict about an event of p, and lets the judge mark p.
func (e *Engine) judge(ev *Event, p *process) Verdict {
	if e.opts.Judge == nil {
		return VerdictPass
	}
	verdict := e.opts.Judge(ev)
	p.Marks, ev.Unsure = ev.Process.Marks, verdict == VerdictUnsure
	if of := e.table.late; of != nil {
		of.Marks.add(p.Marks)
	}
	return verdict
}

// Passes reports whether Options.Judge and Options.Filter let an event pass. The event may be made
// from a process of Processes, and have no kind. Passes leaves the counters unchanged, and sets
// ev.Unsure.
func (e *Engine) Passes(ev *Event) bool {
	e.table.settleEntries()
	verdict := VerdictPass
	if e.opts.Judge != nil {
		verdict = e.opts.Judge(ev)
	}
	ev.Unsure = verdict == VerdictUnsure
	return verdict != VerdictDrop && (e.opts.Filter == nil || e.opts.Filter(ev))
}
