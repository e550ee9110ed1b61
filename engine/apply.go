package engine

import "math"

// find returns the process that a raw event is about, nil if the table has none. It does not look
// through all that had the pid before: there can be thousands.
func (t *table) find(r *RawEvent) *process {
	birth, known := r.Kind == KindFork && !r.Thread, r.Task.Known.Has(FieldStart)
	var since uint64 // the process was born no earlier, but for the rounding of start times
	if known {
		since = t.bornBy(r)
	}
	for p := t.byPID.get(r.PID); p != nil; p = p.older {
		if p.mayBe(r) && (!t.doubtful(p) || t.certainly(p, r) || r.Time <= p.sighted || t.check(p)) {
			return t.orOlder(p, r)
		}
		if !known && p.born <= r.Time {
			since = max(since, p.born)
		}
		if p.born+ProcStartUnit < since || birth && !p.stragglers {
			break
		}
	}
	return nil
}

// orOlder returns the process of r, which may be about p: p, unless p is guessed and r has the
// start time of the process before it.
func (t *table) orOlder(p *process, r *RawEvent) *process {
	o := p
	for o != nil && r.Task.Known.Has(FieldStart) && o.guessed(r.Time) {
		o = o.older
	}
	if o != nil && o.mayBe(r) && t.certainly(o, r) {
		return o
	}
	return p
}

// certainly reports whether the start time of r, which may be about p, proves that r is about p: it
// is p's start time, or one by which p had been forked.
func (t *table) certainly(p *process, r *RawEvent) bool {
	return r.Task.Known.Has(FieldStart) && (p.Known.Has(FieldStart) || p.forked && t.bornBy(r) <= p.born)
}

// mayBe reports whether r is about p.
func (p *process) mayBe(r *RawEvent) bool {
	birth := r.Kind == KindFork && !r.Thread
	if birth && (p.Exited || p.forked) {
		return false // a process is born only once, and before it ends
	}
	if p.Known.Has(FieldStart) && r.Task.Known.Has(FieldStart) {
		// Two processes of one pid can have the same start time, rounded to a tick.
		// Then the order of birth and end decides.
		if p.start != 0 && r.Task.StartUnit == 1 {
			return p.start == r.Task.Start
		}
		return p.sameStart(r.Task.Start, r.Task.StartUnit) && (p.exact(r) || !p.endedBefore(r.Time))
	}
	if birth {
		// Without start times: a process that /proc showed after this fork, and that
		// was born no later than it, is the one that was forked.
		return p.sighted >= r.Time && p.born <= r.Time
	}
	return p.born <= r.Time && !p.endedBefore(r.Time)
}

// exact reports whether both start times are the kernel's, in ns, and not rounded to ticks.
func (p *process) exact(r *RawEvent) bool { return p.StartUnit == 1 && r.Task.StartUnit == 1 }

// endedBefore reports whether p is known to have ended before a time.
func (p *process) endedBefore(time uint64) bool {
	return p.Exited && !p.Inferred && p.asOf < time
}

// bornBy returns a time by which the process of r was born: its start time, or the time of the
// event if the start time is unknown.
func (t *table) bornBy(r *RawEvent) uint64 {
	if !r.Task.Known.Has(FieldStart) {
		return r.Time
	}
	return min(t.clock.Mono(r.Task.Start), r.Time)
}

// freedBefore returns when the latest process that had the pid before r ended, or 0. The process of
// r was born later: its start time can be earlier only because it is rounded down.
func (t *table) freedBefore(r *RawEvent) uint64 {
	for p := t.byPID.get(r.PID); p != nil && p.Exited; p = p.older {
		if p.endedBefore(r.Time) {
			return p.asOf
		}
	}
	return 0
}

// apply updates the table with r and returns r's process.
func (t *table) apply(r *RawEvent, now uint64) *process {
	r.Task.Known &= AllFields
	p := t.find(r)
	isNew := p == nil
	if isNew && r.Thread && r.Kind == KindExit && !r.Task.Known.Has(FieldStart) {
		// It may belong to a process that already exited; adding it would leak an entry.
		return t.stray(r)
	}
	if isNew {
		born := r.Time
		if r.Kind != KindFork || r.Thread {
			born = max(t.bornBy(r), t.freedBefore(r))
		}
		if p = t.guessAgain(r); p == nil {
			p = t.add(r.PID, born)
			// A pid has one process at a time: the ends of the earlier ones were lost.
			for o := p; o.stragglers && o.older != nil; o = o.older {
				o.stragglers = false
				t.replace(o.older, r, now)
			}
		}
		t.revive(p, r.Time)
	}
	if p.sighted != 0 && p.start == 0 && r.Task.StartUnit == 1 && p.StartUnit > 1 && r.Task.Known.Has(FieldStart) {
		p.doubts.start = r.Task.Start
	}
	if r.Time < p.sighted && r.Kind != KindExit {
		switch {
		case r.Kind == KindFork && !r.Thread:
			t.learnBirth(p, r)
		case r.Kind == KindExec && (!p.Known.Has(FieldExe) || p.imageSince < p.sighted):
			t.replaceImage(p, r.Time) // it was read while it executed this
			r.Task.Known &= FieldsImage.With(FieldComm)
			t.update(p, r)
		}
		return p // the rest is of before what /proc showed
	}
	t.refresh(p)
	if p.Inferred {
		t.revive(p, r.Time)
	}
	if isNew && t.judge != nil && (r.Thread || r.Kind != KindFork) {
		p.Marks.add(noMarksKnown)
	}
	if r.Thread {
		if t.certainly(p, r) {
			t.ownDoubts(p).checked = max(p.checked, r.Time)
		}
		return t.thread(p, r)
	}
	switch r.Kind {
	case KindFork:
		late := p.asOf > r.Time
		p.forked, p.mayLead, p.missed = true, false, false
		t.rebirth(p, r.Time)
		t.clearImage(p)
		creator := t.parentAt(r.Creator, p, r.Time)
		if creator != nil {
			t.inheritImage(p, creator, r)
			if isNew { // what the event says too need not be looked up
				p.context, p.Comm, p.Cwd = creator.context, creator.Comm, creator.Cwd
			}
		}
		parent := t.setBirth(p, r, creator)
		if t.judge != nil {
			p.inheritMarks(parent, creator, r)
		}
		if late {
			parent = nil // later execs of the parent may have been applied
		}
		if creator == nil && r.Creator == 0 {
			creator = parent
		}
		t.inheritLogin(p, creator, r)
		p.inheritEntry(parent, r.Time)
	case KindExec:
		t.replaceImage(p, r.Time)
		p.missed, p.execed = false, true
	default:
		p.mayLead = p.mayLead || r.IDChange&ChangedSID != 0
		if !r.mayHaveImage(p.imageNumber) {
			t.clearImage(p) // an exec replaced it and failed, or its EXEC was lost
		}
	}
	replaced := r.ofFailedExec(p.imageNumber)
	if r.Image != 0 {
		p.imageNumber = r.Image
	}
	p.Known &^= r.changed() &^ r.Task.Known
	if r.Kind == KindExit && p.Known.Has(FieldPPID) && t.orphaned(p, r.Time) {
		p.Known &^= FieldPPID.Set() // update sets it again if r has the new parent
	}
	t.update(p, r)
	if isNew && t.judge != nil && r.Kind != KindFork {
		t.adoptMarks(p)
	}
	p.setCached(t.unseen, r)
	p.doubt(replaced &^ r.Task.Known)
	if r.Kind == KindExec {
		t.decideEntry(p, r)
		p.derivePrivileges(r)
	}
	p.asOf = r.Time
	if r.Kind == KindExit {
		p.Inferred = false
		p.endedBy(r.Time)
		t.markExited(p, r.Time, now)
	}
	return p
}

// learnBirth records the birth of p, which /proc showed later.
func (t *table) learnBirth(p *process, fork *RawEvent) {
	p.forked, p.mayLead = true, true
	t.rebirth(p, fork.Time)
	creator := t.parentAt(fork.Creator, p, fork.Time)
	for _, o := range [...]*process{t.setBirth(p, fork, creator), creator} {
		if o != nil {
			p.Marks.add(o.Marks) // p had the marks of a later parent
		}
	}
}

// thread returns the state of r's thread. It updates process p with the fields that all its threads
// share. The result is valid until the next event.
func (t *table) thread(p *process, r *RawEvent) *process {
	if known, cached := r.Task.Known, r.Task.Cached; !p.Exited {
		r.Task.Known &^= FieldsThread
		r.Task.Cached &^= FieldsThread
		t.update(p, r)
		p.setCached(t.unseen, r)
		r.Task.Known, r.Task.Cached = known, cached
	}
	v := &t.view
	t.release(v)
	t.copy(v, p)
	v.Known &^= FieldsThread
	t.update(v, r)
	v.setCached(t.unseen, r)
	return v
}

// stray is thread for a process that is not in the table, and does not come into it.
func (t *table) stray(r *RawEvent) *process {
	v := &t.view
	t.release(v)
	*v = process{}
	v.PID, v.born, v.context, v.image, v.doubts = r.PID, t.bornBy(r), &noContext, &noImage, &noDoubts
	t.update(v, r)
	v.setCached(t.unseen, r)
	if t.judge != nil {
		v.Marks.add(noMarksKnown)
	}
	return v
}

// ofFailedExec returns the fields of the image if r may end a process because its exec failed after
// the point of no return: a signal then ends the process without an EXEC. number is the number of
// the previous image, 0 if unknown: an equal one in r proves that there was no exec.
func (r *RawEvent) ofFailedExec(number uint16) Fields {
	exited := r.Kind == KindExit && r.Task.Known.Has(FieldExit) && r.Task.Exit.WaitStatus&0x7f == 0
	if number != 0 && r.Image == number || exited || r.Kind != KindExit && r.Kind != KindCoreDump {
		return 0
	}
	return FieldsImage.With(FieldComm)
}

// setCached marks values as cached if r does not report them and they may have changed unseen.
func (p *process) setCached(unseen Fields, r *RawEvent) {
	p.Cached = (p.Cached|unseen)&^r.Task.Known | r.Task.Cached
	p.Cached &= p.Known &^ FieldStart.Set()
	p.dispel(r.Task.Known)
}

// doubt marks fields as cached as the process may have ended by an exec that failed.
func (p *process) doubt(replaced Fields) {
	if replaced &= p.Known &^ p.Cached; replaced != 0 {
		p.doubted |= replaced.ofImage()
		p.environDoubted = p.environDoubted || replaced.Has(FieldEnviron)
		p.Cached |= replaced
	}
}

// dispel marks fields as cached for another reason than doubt, or as not cached.
func (p *process) dispel(s Fields) {
	p.doubted &^= s.ofImage()
	p.environDoubted = p.environDoubted && !s.Has(FieldEnviron)
}

// cachedAlive returns the fields of the image of p that are cached for a child that it forked.
func (p *process) cachedAlive() Fields {
	f := p.Cached &^ p.doubted.fields()
	if p.environDoubted {
		f &^= FieldEnviron.Set()
	}
	return f
}

// parentAt returns the process that had a pid at the time when child was forked, or nil if that is
// not certain or pid is 0.
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

// setBirth records the parent that forked p, which only the FORK event shows. creator is the
// process of fork.Creator, nil if it is not certain. It returns the parent, or nil.
func (t *table) setBirth(p *process, fork *RawEvent, creator *process) *process {
	p.birthKnown, p.birthStarted = false, false
	if !fork.Task.Known.Has(FieldPPID) || fork.Task.Cached.Has(FieldPPID) {
		return nil
	}
	p.birthPID, p.birthKnown = fork.Task.PPID, true
	parent := creator
	if fork.Task.PPID != fork.Creator {
		parent = t.parentAt(fork.Task.PPID, p, fork.Time)
	}
	if parent != nil {
		parent.parented = true
	}
	if parent != nil && parent.Known.Has(FieldStart) {
		p.birthStart, p.birthStarted = parent.Start, true
	}
	return parent
}

// orphaned reports whether p may have a new parent at that time, because its parent has ended or is
// not in the table.
func (t *table) orphaned(p *process, time uint64) bool {
	parent := t.at(p.PPID, time)
	// An end may have been joined, and be later.
	return parent == nil || parent.Exited && (parent.Inferred || parent.asOf <= time)
}

// changed returns the fields that the kernel may have changed with the event. Those that the source
// does not report with the event become unknown.
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
	}
	return s
}

// idle reports whether r only set ids to the values that they had. Some sources see that ids were
// set, but not whether that changed them. Such an event is not applied: its other values are of its
// own time, later than an event that it would be joined to. r.IDChange keeps the ids that changed
// or may have: their previous values are unknown, or older than a change that was lost or that the
// source does not report.
func (t *table) idle(r *RawEvent) bool {
	if r.Kind != KindIDChange || r.Thread {
		return false
	}
	p := t.find(r)
	if p == nil || p.sighted >= r.Time || p.asOf <= t.gapTo {
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

// learn adds a process that /proc shows now to the table.
func (t *table) learn(r *RawEvent) *process {
	r.Task.Known &= AllFields
	p := t.byPID.get(r.PID)
	if p == nil || !(p.Known.Has(FieldStart) && p.sameStart(r.Task.Start, r.Task.StartUnit)) {
		p = t.add(r.PID, t.bornBy(r))
	}
	t.ownDoubts(p).sighted = r.Time
	p.asOf, p.imageSince = r.Time, r.Time
	t.update(p, r)
	// /proc shows the current arguments, which the process may have overwritten.
	p.Cached = p.Known & (t.unseen | SetOf(FieldArgs, FieldEnviron) | p.Cached&FieldEntryLeader.Set())
	p.unsettled, t.learned, p.parented = true, true, true
	return p
}

// update copies the fields that r knows. A start time, once known, stays: it
// is part of the identity.
func (t *table) update(p *process, r *RawEvent) {
	k := r.Task.Known
	s := &r.Task
	if k.Has(FieldStart) && !p.Known.Has(FieldStart) {
		p.Start, p.StartUnit = s.Start, uint32(min(max(s.StartUnit, 1), math.MaxUint32))
	}
	if k.Has(FieldLogin) && (p.Login != s.Login || !p.Known.Has(FieldLogin)) {
		p.loginSince = r.Time
		if s.Cached.Has(FieldLogin) {
			p.loginSince = max(r.Time, r.Read)
		}
		p.loginMixed = p.loginMixed || p.parented
	}
	p.set(s, k)
	if k&(FieldsInherited|FieldCgroup.Set()) != 0 && !p.context.has(r) {
		c := t.change(p)
		c.copy(&s.Inherited, k)
		if k.Has(FieldCgroup) {
			t.updateName(&c.Cgroup, r.Bytes(FieldCgroup))
		}
		t.setContext(p, c)
	}
	if k&FieldsUsage != 0 {
		t.use(p, &r.Usage)
	}
	if k.Has(FieldComm) {
		t.updateName(&p.Comm, r.Bytes(FieldComm))
	}
	if k.Has(FieldCwd) {
		t.updateName(&p.Cwd, r.Bytes(FieldCwd))
	}
	if k&FieldsImage != 0 {
		t.updateImage(p, r, k&FieldsImage)
	}
	p.Known |= k
	p.Truncated = p.Truncated&^k | s.Truncated&k
}

// set copies the fields of fixed size in k from s that p does not share, except the start time.
func (p *process) set(s *Task, k Fields) {
	if k.Has(FieldExit) {
		p.waitStatus, p.exitTime = s.Exit.WaitStatus, s.Exit.Time
	}
	copyIf(k.Has(FieldBirthParentTID), &p.ParentTID, &s.ParentTID)
	copyIf(k.Has(FieldPPID), &p.PPID, &s.PPID)
	copyIf(k.Has(FieldParentSignal), &p.ParentSignal, &s.ParentSignal)
	copyIf(k.Has(FieldPGID), &p.PGID, &s.PGID)
	copyIf(k.Has(FieldSID), &p.SID, &s.SID)
	copyIf(k.Has(FieldPIDNS), &p.NSPID, &s.NSPID)
}

// has reports whether c already has the values of r. It is a quick check, and may report false for
// equal values.
func (c *context) has(r *RawEvent) bool {
	k := r.Task.Known
	return (!k.Has(FieldCgroup) || c.Cgroup == string(r.Bytes(FieldCgroup))) &&
		(k&FieldsInherited == 0 || k&FieldsInherited == FieldsInherited && c.Inherited == r.Task.Inherited)
}

// differs reports whether i and o have other values of fields in k.
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

// updateName makes b the value of a text of the table.
func (t *table) updateName(dst *string, b []byte) {
	if *dst != string(b) {
		*dst = t.names.get(b)
	}
}

// clearImage makes the image unknown.
func (t *table) clearImage(p *process) {
	t.setImage(p, &noImage)
	p.forgetImage()
}

func (p *process) forgetImage() {
	p.Known &^= FieldsImage.With(FieldPrivileges)
	p.Truncated &^= FieldsImage
	p.Cached &^= FieldsImage
	p.dispel(FieldsImage)
}

// inheritImage gives p the image that its creator c had at the time of the fork.
func (t *table) inheritImage(p, c *process, fork *RawEvent) {
	p.imageSince = fork.Time
	switch b := &c.before; {
	case c.imageSince <= fork.Time && fork.mayHaveImage(c.imageNumber):
		t.inherit(p, c.image, fork.Time, c.Known, c.Truncated, c.cachedAlive())
	case c.hadEarlier(fork.Time) && fork.mayHaveImage(b.number):
		t.inherit(p, b.image, fork.Time, b.known.fields(), b.truncated.fields(), b.cached.fields())
	}
}

// inherit gives p, which was forked at a time, the known fields of image i. It skips cached values
// that were read after the fork: the path may begin at another root, and the arguments may be
// overwritten.
func (t *table) inherit(p *process, i *image, forked uint64, known, truncated, cached Fields) {
	if i.read > forked {
		known &^= cached
	}
	t.setImage(p, i.share())
	p.Known |= known & FieldsImage
	p.Truncated |= truncated & FieldsImage
	p.Cached |= cached & FieldsImage
}

// inheritLogin gives p the login that c had at the time of the fork: its creator, or its parent
// where the source does not know the creator. Then a child of the parent may have made p
// (CLONE_PARENT). It had that login too, unless the parent has changed it since.
func (t *table) inheritLogin(p, c *process, fork *RawEvent) {
	if c == nil || !c.Known.Has(FieldLogin) || c.loginSince > fork.Time || fork.Creator == 0 && c.loginMixed {
		return
	}
	if p.Login != c.Login {
		changed := t.change(p)
		changed.Login = c.Login
		t.setContext(p, changed)
	}
	p.loginSince = fork.Time
	p.Known |= FieldLogin.Set()
	p.Cached |= FieldLogin.Set()
}

// mayHaveImage reports whether the image at r may have a number.
func (r *RawEvent) mayHaveImage(number uint16) bool {
	return r.Image == 0 || number == 0 || r.Image == number
}

// replaceImage keeps the image that an exec at a time replaces, and makes the new one unknown until
// the event sets it.
func (t *table) replaceImage(p *process, time uint64) {
	t.drop(p.before.image)
	p.before = earlier{p.image, p.Known.ofImage(), p.Truncated.ofImage(), p.Cached.ofImage(), p.imageNumber}
	p.before.known &^= SetOf(FieldExeFile, FieldExecPath).ofImage() // seldom needed
	p.image = t.newImage(time)
	p.forgetImage()
	p.imageSince = time
}
