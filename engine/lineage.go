package engine

import (
	"math"
	"strconv"
)

// SessionLeader returns the leader of p's session, which may have ended, or nil if it is not known.
// Who it is holds as of p.AsOf. Its state is of its own AsOf, which is later than an event of p if
// later events of it were joined with an earlier one.
func (e *Engine) SessionLeader(p *Process) *Process {
	return e.table.leader(p, FieldSID, func(t *Task) uint32 { return t.SID })
}

// GroupLeader returns the leader of p's process group, which may have ended, or nil if it is not
// known. Its state is of its own AsOf, as that of the SessionLeader.
func (e *Engine) GroupLeader(p *Process) *Process {
	return e.table.leader(p, FieldPGID, func(t *Task) uint32 { return t.PGID })
}

// Ancestors returns p's parent, its parent and so on: for each process the parent at birth, or, if
// its birth was not seen, the parent that it had later. Ended ones are among them while they are
// in the table. whole reports whether the last one is process 1 or kthreadd; else the next one is
// not known. The state of each is of its own AsOf, as that of the SessionLeader.
func (e *Engine) Ancestors(p *Process) (ancestors []*Process, whole bool) {
	if p == nil {
		return nil, false
	}
	for !p.isFirst() {
		// A table that is wrong could have a circle.
		if p = e.table.parent(p); p == nil || len(ancestors) > e.table.count {
			return ancestors, false
		}
		ancestors = append(ancestors, p)
	}
	return ancestors, true
}

// isFirst reports whether p has no parent: process 1, and kthreadd.
func (p *Process) isFirst() bool { return p.PID == 1 || p.Known.Has(FieldPPID) && p.PPID == 0 }

// parent returns the parent of p at its birth, or nil if that is not certain.
func (t *table) parent(p *Process) *Process {
	switch {
	case p.Birth.Known.Has(FieldStart):
		return t.lookupIdentity(p.Birth.Parent)
	case p.Birth.Known.Has(FieldPPID):
		return t.parentAt(p.Birth.Parent.PID, p, p.born)
	case p.Known.Has(FieldPPID):
		// A parent is older than its child, also one that adopted it.
		return t.parentAt(p.PPID, p, p.born)
	}
	return nil
}

// leader returns the process whose pid is the number of a group or session of p, which may be nil.
func (t *table) leader(p *Process, f Field, number func(*Task) uint32) *Process {
	if p == nil || !p.Known.Has(f) || number(&p.Task) == 0 {
		return nil
	}
	pid := number(&p.Task)
	at := p.asOf
	if p.Carried.Has(f) {
		at = p.born // the group may be gone since, and its number another's
	}
	l := t.at(pid, at)
	switch {
	case l == nil, !t.births && l.Exited:
		return nil
	case l.Exited && l.PID != p.PID: // nobody else gets its pid while the group lasts
		if t.gapTo != 0 && (!l.Known.Has(FieldExit) || l.Task.Exit.Time <= t.gapTo) {
			return nil
		}
	case t.doubtful(l) && !t.check(l):
		return nil
	}
	return l
}

// relative is what is printed of a leader or an ancestor: what was true when the event began. From
// then on events may be missing, or applied too early, as they joined an earlier one.
type relative struct {
	*Process
	known, carried Fields // of FieldComm and FieldFilename
	filename       string
	exited         bool
}

// relative returns what is printed of p, which is a leader or an ancestor of e.Process.
func (e *Event) relative(p *Process) relative {
	time := e.Time
	switch {
	case e.Events == 0: // what /proc showed
		time = math.MaxUint64
	case !e.Thread && p.PID == e.Process.PID && p.born == e.Process.born: // its own leader
		time = p.asOf
	}
	r := relative{Process: p, filename: p.Filename}
	r.exited = p.Exited && p.Known.Has(FieldExit) && p.Task.Exit.Time <= time
	if p.asOf <= time {
		r.known = p.Known & FieldComm.Set()
	}
	// An exec that a signal ends may have changed the image first, without an EXEC.
	killed := p.Exited && (!p.Known.Has(FieldExit) || p.Task.Exit.Signal() != 0)
	carried, file := p.Carried, FieldFilename.Set()
	switch b := &p.before; {
	case p.imageSince <= time && (p.asOf <= time || !killed):
		r.known |= p.Known & file
	case b.since <= time && time < b.until:
		r.known |= b.known.fields() & file
		r.filename, carried = b.filename, b.carried.fields()|p.Carried&^file
	}
	r.carried = carried & r.known
	return r
}

// AppendJSON appends the event as [Event.AppendJSON] does, and the leaders and ancestors of its
// process: of each what was true when the event began, and of a leader of itself what
// the event says.
func (e *Engine) AppendJSON(b []byte, ev *Event) []byte {
	b = ev.AppendJSON(b, &e.clock, e.source.Name())
	if ev.Process == nil || ev.Events.Has(EventGap) {
		return b
	}
	o := object{b: b[:len(b)-1], some: true}
	o.relative("session_leader", ev, e.SessionLeader(ev.Process))
	o.relative("group_leader", ev, e.GroupLeader(ev.Process))
	o.begin("ancestors", '[')
	ancestors, whole := e.Ancestors(ev.Process)
	for _, p := range ancestors {
		o.next()
		o.b = ev.relative(p).appendTo(o.b)
	}
	o.end(']')
	o.trueIf(!whole, "ancestors_missing")
	return append(o.b, '}')
}

func (o *object) relative(key string, ev *Event, p *Process) {
	if p != nil {
		o.key(key)
		o.b = ev.relative(p).appendTo(o.b)
	}
}

func (r relative) appendTo(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.uint("pid", uint64(r.PID))
	if r.Known.Has(FieldStart) {
		o.uint("start_boottime_ns", r.Start)
	}
	o.textIf(r.known.Has(FieldComm), "comm", r.Comm)
	o.textIf(r.known.Has(FieldFilename), "filename", r.filename)
	o.trueIf(r.exited, "exited")
	if r.carried != 0 {
		o.text("carried", r.carried.String())
	}
	return append(o.b, '}')
}

// AppendDump appends the event as [Event.AppendDump] does, and a line with the leaders of its
// process and one with its ancestors, the parent first. A name that is carried, or of a later time,
// is left out.
func (e *Engine) AppendDump(b []byte, ev *Event) []byte {
	b = ev.AppendDump(b)
	p := ev.Process
	if p == nil || ev.Events.Has(EventGap) {
		return b
	}
	d := dumper{b: b, p: p}
	d.line("LEAD")
	if d.key("entry_leader_type", p.Known.Has(FieldEntry)) {
		d.b = append(d.b, p.EntryType.String()...)
	}
	d.num("entry_leader", FieldEntry, p.EntryLeader.PID)
	d.relative("session_leader", ev, e.SessionLeader(p)).relative("group_leader", ev, e.GroupLeader(p))
	d.line("ANCS").key("ancestors", true)
	d.b = append(d.b, '[')
	ancestors, whole := e.Ancestors(p)
	for _, a := range ancestors {
		d.b = append(d.b, ' ')
		d.relativeName(ev.relative(a))
	}
	if !whole {
		d.b = append(d.b, " ?"...)
	}
	return append(d.b, " ]\n"...)
}

func (d *dumper) relative(key string, ev *Event, p *Process) *dumper {
	if d.key(key, p != nil) {
		d.relativeName(ev.relative(p))
	}
	return d
}

func (d *dumper) relativeName(r relative) {
	d.b = strconv.AppendUint(d.b, uint64(r.PID), 10)
	if (r.known &^ r.carried).Has(FieldComm) {
		d.b = appendEscaped(append(d.b, ':'), r.Comm)
	}
}
