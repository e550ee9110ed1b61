package engine

import (
	"math"
	"strconv"
)

// SessionLeader returns the leader of p's session at p.AsOf, or nil if the leader is unknown. The
// leader may have ended. Its state is as of its own AsOf, which can be later than the event of p:
// later events of the leader may have joined an earlier event.
func (e *Engine) SessionLeader(p *Process) *Process {
	return e.table.show(e.sessionLeader(p))
}

// GroupLeader returns the leader of p's process group, or nil if the leader is unknown. The leader
// may have ended, and its state is as of its own AsOf, as with SessionLeader.
func (e *Engine) GroupLeader(p *Process) *Process {
	return e.table.show(e.groupLeader(p))
}

// Ancestors returns p's parent, the parent's parent and so on. The parent of a process is its
// parent at birth, or a later parent if the birth was not reported. The list includes ended
// processes that are still in the table. whole reports whether the list ends with process 1 or
// kthreadd. The state of each ancestor is as of its own AsOf.
func (e *Engine) Ancestors(p *Process) (ancestors []*Process, whole bool) {
	if p == nil {
		return nil, false
	}
	list, whole := e.ancestors(p)
	for _, a := range list {
		ancestors = append(ancestors, e.table.show(a))
	}
	return ancestors, whole
}

func (e *Engine) ancestors(of *Process) (list []*process, whole bool) {
	child := of.inner()
	for p := &child; !p.isFirst(); list = append(list, p) {
		// A damaged table could have a cycle.
		if p = e.table.parent(p); p == nil || len(list) > e.table.count {
			return list, false
		}
	}
	return list, true
}

func (e *Engine) sessionLeader(p *Process) *process {
	if p == nil {
		return nil
	}
	return e.table.leader(p, FieldSID, p.SID)
}

func (e *Engine) groupLeader(p *Process) *process {
	if p == nil {
		return nil
	}
	return e.table.leader(p, FieldPGID, p.PGID)
}

// isFirst reports whether p has no parent: process 1, and kthreadd.
func (p *process) isFirst() bool { return p.PID == 1 || p.Known.Has(FieldPPID) && p.PPID == 0 }

// parent returns the parent of p at its birth, or nil if that is not certain.
func (t *table) parent(p *process) *process {
	switch {
	case p.birth.Known.Has(FieldStart):
		return t.lookupIdentity(p.birth.Parent)
	case p.birth.Known.Has(FieldPPID):
		return t.parentAt(p.birth.Parent.PID, p, p.born)
	case p.Known.Has(FieldPPID):
		// A parent is older than its child, even a parent that adopted the child.
		return t.parentAt(p.PPID, p, p.born)
	}
	return nil
}

// leader returns the leader of p's group or session, whose number is pid.
func (t *table) leader(p *Process, f Field, pid uint32) *process {
	if !p.Known.Has(f) || pid == 0 {
		return nil
	}
	at := p.asOf
	if p.Cached.Has(f) {
		at = p.born // since then the group may have ended and its number been reused
	}
	l := t.at(pid, at)
	switch {
	case l == nil, !t.births && l.life != living:
		return nil
	case l.life != living && l.PID != p.PID: // its pid stays reserved while the group exists
		if t.gapTo != 0 && (!l.Known.Has(FieldExit) || l.exit.Time <= t.gapTo) {
			return nil
		}
	case t.doubtful(l) && !t.check(l):
		return nil
	}
	return l
}

// relative holds the values to print of a leader or an ancestor: the values when the event began,
// as far as known. Events of the relative may be missing, or already be applied because they joined
// an earlier event.
type relative struct {
	*process
	known, cached Fields // of FieldComm and FieldExe
	exited        bool
}

// relative returns the printed form of p, which is a leader or an ancestor of e.Process.
func (e *Event) relative(p *process) relative {
	time := e.Time
	switch {
	case e.Events == 0: // a process from /proc
		time = math.MaxUint64
	case !e.Thread && p.PID == e.Process.PID && p.born == e.Process.born: // its own leader
		time = p.asOf
	}
	r := relative{process: p}
	r.exited = p.life != living && p.exit.Time != 0 && p.exit.Time <= time
	if p.asOf <= time {
		r.known = p.Known & FieldComm.Set()
	}
	// An exec can change the image and then end by a signal, without an EXEC.
	killed := p.life != living && (!p.Known.Has(FieldExit) || p.exit.Signal() != 0)
	if p.since <= time && (p.asOf <= time || !killed) {
		r.known |= p.Known & FieldExe.Set()
	}
	r.cached = p.Cached & r.known
	return r
}

// AppendJSON appends the event as [Event.AppendJSON] does, and the leaders and ancestors of its
// process. Each has its values when the event began. A leader that is the process itself has the
// values of the event.
func (e *Engine) AppendJSON(b []byte, ev *Event) []byte {
	b = ev.AppendJSON(b, e.clock, e.source.Name())
	if ev.Process == nil || ev.Events.Has(EventGap) {
		return b
	}
	o := object{b: b[:len(b)-1], some: true}
	o.relative("session_leader", ev, e.sessionLeader(ev.Process))
	o.relative("group_leader", ev, e.groupLeader(ev.Process))
	o.begin("ancestors", '[')
	ancestors, whole := e.ancestors(ev.Process)
	for _, p := range ancestors {
		o.next()
		o.b = ev.relative(p).appendTo(o.b)
	}
	o.end(']')
	o.trueIf(!whole, "ancestors_missing")
	return append(o.b, '}')
}

func (o *object) relative(key string, ev *Event, p *process) {
	if p != nil {
		o.key(key)
		o.b = ev.relative(p).appendTo(o.b)
	}
}

func (r relative) appendTo(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.uint("pid", uint64(r.PID))
	if r.Known.Has(FieldStart) {
		o.uint("start_boottime", r.Start)
	}
	o.textIf(r.known.Has(FieldComm), "comm", r.Comm)
	o.textIf(r.known.Has(FieldExe), "exe", r.Exe)
	o.trueIf(r.exited, "exited")
	return append(r.cached.appendJSON(o.b, `,"cached":[`), '}')
}

// AppendDump appends the event as [Event.AppendDump] does, and a line with the leaders of its
// process and a line with its ancestors, the parent first. It omits a name that is cached or of a
// later time.
func (e *Engine) AppendDump(b []byte, ev *Event) []byte {
	b = ev.appendDump(b, ofDump.With(FieldEntryLeader))
	p := ev.Process
	if p == nil || ev.Events.Has(EventGap) {
		return b
	}
	d := dumper{b: b, p: p}
	d.line("LEAD")
	if d.key("entry_leader_type", p.Known.Has(FieldEntryLeader)) {
		d.b = append(d.b, p.EntryType.String()...)
	}
	if d.key("entry_leader", p.Known.Has(FieldEntryLeader)) {
		d.b = strconv.AppendUint(d.b, uint64(p.EntryLeader.PID), 10)
	}
	d.relative("session_leader", ev, e.sessionLeader(p)).relative("group_leader", ev, e.groupLeader(p))
	d.line("ANCS").key("ancestors", true)
	d.b = append(d.b, '[')
	ancestors, whole := e.ancestors(p)
	for _, a := range ancestors {
		d.b = append(d.b, ' ')
		d.relativeName(ev.relative(a))
	}
	if !whole {
		d.b = append(d.b, " ?"...)
	}
	return append(d.b, " ]\n"...)
}

func (d *dumper) relative(key string, ev *Event, p *process) *dumper {
	if d.key(key, p != nil) {
		d.relativeName(ev.relative(p))
	}
	return d
}

func (d *dumper) relativeName(r relative) {
	d.b = strconv.AppendUint(d.b, uint64(r.PID), 10)
	if (r.known &^ r.cached).Has(FieldComm) {
		d.b = appendEscaped(append(d.b, ':'), r.Comm)
	}
}
