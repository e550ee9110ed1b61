package engine

import "math"

// apply updates the table with r and returns r's process. The process is valid until the next
// event.
func (t *table) apply(r *RawEvent, now uint64) *process {
	r.Task.Known &= AllFields
	t.late = nil
	p, match := t.find(r)
	switch {
	case match == matchUnknown:
		v := t.stateOf(r)
		v.Marks.add(noMarksKnown)
		return v
	case match == matchNew:
		p = t.enter(r, now)
	case r.Time < p.asOf && r.Kind != KindExit:
		return t.applyLate(p, r)
	default:
		t.refresh(p)
		t.revive(p)
	}
	switch {
	case r.Thread:
		t.applyThread(p, r)
	case r.Kind == KindFork:
		t.applyFork(p, r)
	case r.Kind == KindExec:
		t.applyExec(p, r)
	case r.Kind == KindExit:
		t.applyExit(p, r, now)
	default:
		t.applyChange(p, r)
	}
	if match == matchNew && !r.isBirth() {
		t.adoptMarks(p)
	}
	if r.Thread {
		return t.stateOfThread(p, r)
	}
	return p
}

// applyState makes the state of p the state at r. If r lacks a field, it becomes unknown if the
// event may have changed it, else cached if it may have changed unseen.
func (t *table) applyState(p *process, r *RawEvent) {
	replaced := r.ofFailedExec(p.number)
	if r.Image != 0 && r.Image != p.number {
		t.ownImage(p).number = r.Image
	}
	p.Known &^= r.changed() &^ r.Task.Known
	t.orphans.reach(p, r.Time)
	t.keepReaper(p, r)
	t.update(p, r)
	p.setCached(t.unseen, r)
	p.Cached |= replaced & p.Known &^ r.Task.Known
	p.asOf = r.Time
}

func (t *table) applyFork(p *process, r *RawEvent) {
	p.birth.from = fromFork
	creator := t.parentAt(r.Creator, p, r.Time)
	if creator != nil {
		t.inheritImage(p, creator, r)
		p.context, p.Comm = creator.context, creator.Comm // r has mostly the same
	}
	parent := t.setBirth(p, r, creator)
	if t.judge != nil {
		p.inheritMarks(parent, creator, r)
	}
	if r.Creator == 0 {
		creator = parent
	}
	t.inheritLogin(p, creator, r)
	p.inheritEntry(parent, r.Time)
	t.applyState(p, r)
}

func (t *table) applyExec(p *process, r *RawEvent) {
	t.replaceImage(p, r.Time)
	t.applyState(p, r)
	t.decideEntry(p, r.Time)
	if p.entry.by == EntryKThread { // a process that executes a file is no kernel thread
		p.Cached |= p.Known & FieldEntryLeader.Set()
	}
	p.derivePrivileges(r)
}

func (t *table) applyExit(p *process, r *RawEvent, now uint64) {
	if p.Known.Has(FieldPPID) && t.orphaned(p, r.Time) {
		p.Known &^= FieldPPID.Set() // unless r has the new parent
	}
	t.applyChange(p, r)
	t.orphans.add(r)
	p.endedBy(r.Time)
	t.end(p, ended, r.Time, now)
}

func (t *table) applyChange(p *process, r *RawEvent) {
	if !r.mayHaveImage(p.number) {
		t.replaceImage(p, r.Time) // the exec failed, or its EXEC was lost
	}
	t.applyState(p, r)
	if r.IDChange&ChangedSID != 0 { // setsid(2) makes a session numbered by the pid
		p.SID, p.Known = p.PID, p.Known.With(FieldSID)
		p.Cached &^= FieldSID.Set()
	}
}

// applyLate returns the state for r, which is older than the state of p. It copies only the birth
// from r to p.
func (t *table) applyLate(p *process, r *RawEvent) *process {
	if r.isBirth() {
		p.birth.from = fromFork
		p.born = r.Time
		if p.older != nil {
			p.born = max(p.born, p.older.born)
		}
		creator := t.parentAt(r.Creator, p, r.Time)
		for _, o := range [...]*process{t.setBirth(p, r, creator), creator} {
			if o != nil {
				p.Marks.add(o.Marks) // p had the marks of a later parent
			}
		}
	}
	v := t.stateOf(r)
	v.birth, v.Marks, t.late = p.birth, p.Marks, p
	if p.Known.Has(FieldStart) {
		v.Start, v.StartUnit, v.Known = p.Start, p.StartUnit, v.Known.With(FieldStart)
	}
	return v
}

// stateOf returns the state that r alone shows.
func (t *table) stateOf(r *RawEvent) *process {
	v := &t.view
	t.release(v)
	*v = process{}
	v.PID, v.born, v.asOf, v.context, v.image = r.PID, t.bornBy(r), r.Time, &noContext, &noImage
	t.update(v, r)
	v.setCached(t.unseen, r)
	return v
}

// applyThread updates p with the fields of r that all threads of a process share.
func (t *table) applyThread(p *process, r *RawEvent) {
	if known, cached := r.Task.Known, r.Task.Cached; p.life == living {
		r.Task.Known &^= FieldsThread
		r.Task.Cached &^= FieldsThread
		t.update(p, r)
		p.setCached(t.unseen, r)
		r.Task.Known, r.Task.Cached = known, cached
		p.asOf = r.Time
	}
}

// stateOfThread returns the state of r's thread in process p.
func (t *table) stateOfThread(p *process, r *RawEvent) *process {
	v := &t.view
	t.release(v)
	t.copy(v, p)
	v.Known &^= FieldsThread
	t.update(v, r)
	v.setCached(t.unseen, r)
	return v
}

// ofFailedExec returns the fields of the image if r may be the end of a failed exec. After its
// point of no return, an exec fails by a signal, without an EXEC. number is the number of the
// previous image, 0 if unknown. If r has the same number, there was no exec.
func (r *RawEvent) ofFailedExec(number uint16) Fields {
	exited := r.Kind == KindExit && r.Task.Known.Has(FieldExit) && r.Task.Exit.WaitStatus&0x7f == 0
	if number != 0 && r.Image == number || exited || r.Kind != KindExit && r.Kind != KindCoreDump {
		return 0
	}
	return FieldsImage.With(FieldComm)
}

// setCached marks a value as cached if r does not report it and it may have changed unseen.
func (p *process) setCached(unseen Fields, r *RawEvent) {
	p.Cached = (p.Cached|unseen)&^r.Task.Known | r.Task.Cached
	p.Cached &= p.Known &^ FieldStart.Set()
}

// parentAt returns the process that had pid when child was forked, or nil if the process is
// uncertain or pid is 0.
func (t *table) parentAt(pid uint32, child *process, time uint64) *process {
	if pid == 0 {
		return nil
	}
	c := t.at(pid, time)
	if c == nil || c.same(child) || c.endedBefore(time) || t.doubtful(c) && !t.check(c) {
		return nil
	}
	return c
}

// identityAt returns the identity of the process that had pid at time. Start is 0 if it is unknown.
func (t *table) identityAt(pid uint32, time uint64) Identity {
	id := Identity{PID: pid}
	if p := t.at(pid, time); p != nil && p.Known.Has(FieldStart) && !p.endedBefore(time) && (!t.doubtful(p) || t.check(p)) {
		id.Start = p.Start
	}
	return id
}

// setBirth records the parent that forked p, which only the FORK event shows. creator is the
// process of fork.Creator, nil if it is not certain. It returns the parent, or nil.
func (t *table) setBirth(p *process, fork *RawEvent, creator *process) *process {
	p.birth.Birth = Birth{}
	if !fork.Task.Known.Has(FieldPPID) || fork.Task.Cached.Has(FieldPPID) {
		return nil
	}
	b := &p.birth.Birth
	b.Parent.PID, b.Known = fork.Task.PPID, FieldPPID.Set()
	parent := creator
	if fork.Task.PPID != fork.Creator {
		parent = t.parentAt(fork.Task.PPID, p, fork.Time)
	}
	if parent != nil && parent.Known.Has(FieldStart) {
		b.Parent.Start, b.Known = parent.Start, b.Known.With(FieldStart)
	}
	return parent
}

// orphaned reports whether p may have a new parent at time, because its parent has ended or is not
// in the table.
func (t *table) orphaned(p *process, time uint64) bool {
	parent := t.at(p.PPID, time)
	// A joined EXIT can be later than time.
	return parent == nil || parent.life != living && (parent.life != ended || parent.asOf <= time)
}

// changed returns the fields that the kernel may have changed with the event. If the source does
// not report such a field with the event, the field becomes unknown.
func (r *RawEvent) changed() (s Fields) {
	switch r.Kind {
	case KindFork:
		s = s.With(FieldComm)
	case KindExec: // exec sets saved ids to the effective ones
		s = s.With(FieldComm).With(FieldCaps).With(FieldSUID).With(FieldSGID)
		// Programs often change these between fork and exec, without an event.
		s |= FieldsNS | Fields(1<<FieldPGID|1<<FieldTTY|1<<FieldCwd|1<<FieldCgroup|1<<FieldParentSignal)
	case KindSetProcTitle:
		s = s.With(FieldComm)
	case KindIDChange:
		if r.IDChange&ChangedUID != 0 {
			s |= Fields(1<<FieldUIDs | 1<<FieldSUID | 1<<FieldCaps)
		}
		if r.IDChange&ChangedGID != 0 {
			s |= Fields(1<<FieldGIDs | 1<<FieldSGID)
		}
		if r.IDChange&ChangedSID != 0 { // a new session has no terminal yet
			s |= Fields(1<<FieldSID | 1<<FieldPGID | 1<<FieldTTY)
		}
		if r.IDChange&ChangedPGID != 0 {
			s = s.With(FieldPGID)
		}
	case KindCgroupChange:
		s = s.With(FieldCgroup)
	case KindNSChange:
		s |= r.NSChange.Changed.fields()
	}
	return s
}

// keepsIDs reports whether r only set ids to their old values. Some sources report that ids were
// set, but not whether the values changed. Such an event is not applied, because its other values
// would be newer than the event that it joins. r.IDChange keeps the ids that changed or may have
// changed. An id may have changed if its previous value is unknown, or older than a lost or
// unreported change.
func (t *table) keepsIDs(r *RawEvent) bool {
	if r.Kind != KindIDChange || r.Thread {
		return false
	}
	p, match := t.find(r)
	if match != matchSame || r.Time < p.asOf || p.asOf <= t.gapTo {
		return false
	}
	known, o, n := p.Known&r.Task.Known&^(p.Cached|t.unseen), &p.Cred, &r.Task.Cred
	if known.Has(FieldUIDs) && known.Has(FieldSUID) && o.UID == n.UID && o.EUID == n.EUID && o.SUID == n.SUID {
		r.IDChange &^= ChangedUID
	}
	if known.Has(FieldGIDs) && known.Has(FieldSGID) && o.GID == n.GID && o.EGID == n.EGID && o.SGID == n.SGID {
		r.IDChange &^= ChangedGID
	}
	return r.IDChange == 0
}

// learn adds a process from /proc to the table.
func (t *table) learn(r *RawEvent, now uint64) *process {
	r.Task.Known &= AllFields
	p, match := t.find(r)
	if match != matchSame {
		p = t.enter(r, now)
		p.birth.from = fromProc
	}
	t.replaceImage(p, r.Time)
	t.update(p, r)
	p.asOf = r.Time
	// /proc shows the current arguments, which the process may have overwritten.
	p.Cached = p.Known & (t.unseen | SetOf(FieldArgs, FieldEnviron) | p.Cached&FieldEntryLeader.Set())
	t.learned = append(t.learned, p)
	return p
}

// update copies the known fields of r. A known start time stays: it is part of the identity.
func (t *table) update(p *process, r *RawEvent) {
	k := r.Task.Known
	s := &r.Task
	if k.Has(FieldStart) && !p.Known.Has(FieldStart) {
		p.Start, p.StartUnit = s.Start, uint32(min(max(s.StartUnit, 1), math.MaxUint32))
	}
	p.set(s, k)
	if k&(FieldsInherited|1<<FieldCwd|1<<FieldCgroup) != 0 && !p.context.has(r) {
		c := t.change(p)
		c.copy(&s.Inherited, k)
		if k.Has(FieldCgroup) {
			t.updateName(&c.Cgroup, r.Bytes(FieldCgroup))
		}
		if k.Has(FieldCwd) {
			t.updateName(&c.Cwd, r.Bytes(FieldCwd))
		}
		t.setContext(p, c)
	}
	if k&FieldsUsage != 0 {
		t.use(p, &r.Usage)
	}
	if k.Has(FieldComm) {
		t.updateName(&p.Comm, r.Bytes(FieldComm))
	}
	if k&FieldsImage != 0 {
		t.updateImage(p, r, k&FieldsImage)
	}
	if r.Read > 0 && r.Task.Cached.Has(FieldLogin) {
		t.ownImage(p).read = r.Read
	}
	p.Known |= k
	p.Truncated = p.Truncated&^k | s.Truncated&k
}

// set copies from s the fields in k of fixed size that p does not share, except the start time.
func (p *process) set(s *Task, k Fields) {
	copyIf(k.Has(FieldExit), &p.exit, &s.Exit)
	copyIf(k.Has(FieldBirthParentTID), &p.birth.tid, &s.ParentTID)
	copyIf(k.Has(FieldPPID), &p.PPID, &s.PPID)
	copyIf(k.Has(FieldParentSignal), &p.ParentSignal, &s.ParentSignal)
	copyIf(k.Has(FieldPGID), &p.PGID, &s.PGID)
	copyIf(k.Has(FieldSID), &p.SID, &s.SID)
	copyIf(k.Has(FieldPIDNS), &p.NSPID, &s.NSPID)
}

// has reports whether c already has the values of r. The check is quick: it may report false for
// equal values.
func (c *context) has(r *RawEvent) bool {
	k := r.Task.Known
	return (!k.Has(FieldCgroup) || c.Cgroup == string(r.Bytes(FieldCgroup))) && (!k.Has(FieldCwd) || c.Cwd == string(r.Bytes(FieldCwd))) &&
		(k&FieldsInherited == 0 || k&FieldsInherited == FieldsInherited && c.Inherited == r.Task.Inherited)
}

// differs reports whether i and o differ in a field of k.
func (i *Inherited) differs(o *Inherited, k Fields) bool {
	changed := *i
	changed.copy(o, k)
	return changed != *i
}

func copyIf[T any](known bool, to, from *T) {
	if known {
		*to = *from
	}
}

// updateName sets a text of the table to b.
func (t *table) updateName(dst *string, b []byte) {
	if *dst != string(b) {
		*dst = t.names.get(b)
	}
}

// inheritImage gives p the image that its creator c had at the time of the fork. The image is
// unknown if c has executed another program since. Cached values that were read after the fork are
// skipped: c may have changed its root or overwritten its arguments meanwhile.
func (t *table) inheritImage(p, c *process, fork *RawEvent) {
	if c.since > fork.Time || !fork.mayHaveImage(c.number) {
		return
	}
	known := c.Known & FieldsImage
	if c.read > fork.Time {
		known &^= c.Cached
	}
	t.setImage(p, c.image.share())
	p.Known |= known
	p.Truncated |= c.Truncated & FieldsImage
	p.Cached |= c.Cached & FieldsImage
}

// inheritLogin gives p the login of c, as cached. c is the creator of p, or the parent if the
// source does not report the creator. A cached login that was read after the fork is skipped,
// because p may never have had it.
func (t *table) inheritLogin(p, c *process, fork *RawEvent) {
	if c == nil || !c.Known.Has(FieldLogin) || c.Cached.Has(FieldLogin) && max(c.since, c.read) > fork.Time {
		return
	}
	if p.Login != c.Login {
		changed := t.change(p)
		changed.Login = c.Login
		t.setContext(p, changed)
	}
	p.Known |= FieldLogin.Set()
	p.Cached |= FieldLogin.Set()
}

// mayHaveImage reports whether the image at r may have a number.
func (r *RawEvent) mayHaveImage(number uint16) bool {
	return r.Image == 0 || number == 0 || r.Image == number
}

// replaceImage gives p a new image, which is unknown until the event at time sets it.
func (t *table) replaceImage(p *process, time uint64) {
	t.setImage(p, t.newImage(time))
	p.Known &^= FieldsImage.With(FieldPrivileges)
	p.Truncated &^= FieldsImage
	p.Cached &^= FieldsImage
}
