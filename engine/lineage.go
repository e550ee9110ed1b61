package engine

import "strconv"

// SessionLeader returns the leader of p's session, which may have ended, or nil if it is not known.
func (e *Engine) SessionLeader(p *Process) *Process {
	return e.table.leader(p, FieldSID, func(t *Task) uint32 { return t.SID })
}

// GroupLeader returns the leader of p's process group, which may have ended, or nil if it is not
// known.
func (e *Engine) GroupLeader(p *Process) *Process {
	return e.table.leader(p, FieldPGID, func(t *Task) uint32 { return t.PGID })
}

// Ancestors returns p's parent, its parent and so on: for each process the parent at birth, or, if
// its birth was not seen, the parent that it had later. Ended ones are among them while they are
// in the table. whole reports whether the last one is process 1 or kthreadd; else the next one is
// not known.
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
		if !l.Known.Has(FieldExit) || l.Task.Exit.Time <= t.gapTo {
			return nil
		}
	case t.doubtful(l) && !t.check(l):
		return nil
	}
	return l
}

// AppendJSON appends the event as [Event.AppendJSON] does, and the leaders and ancestors of its
// process.
func (e *Engine) AppendJSON(b []byte, ev *Event) []byte {
	b = ev.AppendJSON(b, &e.clock, e.source.Name())
	if ev.Process == nil || ev.Events.Has(EventGap) {
		return b
	}
	o := object{b: b[:len(b)-1], some: true}
	o.relative("session_leader", e.SessionLeader(ev.Process))
	o.relative("group_leader", e.GroupLeader(ev.Process))
	o.key("ancestors")
	o.b = append(o.b, '[')
	ancestors, whole := e.Ancestors(ev.Process)
	for i, p := range ancestors {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = p.appendName(o.b)
	}
	o.b = append(o.b, ']')
	if !whole {
		o.key("ancestors_missing")
		o.b = append(o.b, "true"...)
	}
	return append(o.b, '}')
}

func (o *object) relative(key string, p *Process) {
	if p != nil {
		o.key(key)
		o.b = p.appendName(o.b)
	}
}

// appendName appends what tells p from others.
func (p *Process) appendName(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.uint("pid", uint64(p.PID))
	if p.Known.Has(FieldStart) {
		o.uint("start_boottime_ns", p.Start)
	}
	o.textIf(p.Known.Has(FieldComm), "comm", p.Comm)
	o.textIf(p.Known.Has(FieldFilename), "filename", p.Filename)
	if p.Exited {
		o.key("exited")
		o.b = append(o.b, "true"...)
	}
	return append(o.b, '}')
}

// AppendDump appends the event as [Event.AppendDump] does, and a line with the leaders of its
// process and one with its ancestors, the parent first.
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
	d.relative("session_leader", e.SessionLeader(p)).relative("group_leader", e.GroupLeader(p))
	d.line("ANCS").key("ancestors", true)
	d.b = append(d.b, '[')
	ancestors, whole := e.Ancestors(p)
	for _, a := range ancestors {
		d.b = append(d.b, ' ')
		d.relativeName(a)
	}
	if !whole {
		d.b = append(d.b, " ?"...)
	}
	return append(d.b, " ]\n"...)
}

func (d *dumper) relative(key string, p *Process) *dumper {
	if d.key(key, p != nil) {
		d.relativeName(p)
	}
	return d
}

func (d *dumper) relativeName(p *Process) {
	d.b = strconv.AppendUint(d.b, uint64(p.PID), 10)
	if p.Known.Has(FieldComm) {
		d.b = appendEscaped(append(d.b, ':'), p.Comm)
	}
}
