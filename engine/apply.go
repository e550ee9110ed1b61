package engine

// find returns the process that a raw event is about, nil if the table has none.
func (t *table) find(r *RawEvent) *Process {
	for p := t.byPID[r.PID]; p != nil; p = p.older {
		if p.mayBe(r) {
			return p
		}
	}
	return nil
}

// mayBe reports whether r is about p.
func (p *Process) mayBe(r *RawEvent) bool {
	birth := r.Kind == KindFork && !r.Thread
	if birth && (p.Exited || p.forked) {
		return false // a process is born once, and before it ends
	}
	if p.Known.Has(FieldStart) && r.Task.Known.Has(FieldStart) {
		// Start times rounded to a tick can be equal for two processes of
		// one pid: then the order of birth and end decides.
		return p.sameStart(&r.Task) && (p.exact(r) || !p.endedBefore(r.Time))
	}
	if birth {
		// Without start times, a process that /proc showed after this fork,
		// and that was there when it happened, is the one that was forked.
		return p.sighted >= r.Time && p.born <= r.Time
	}
	return p.born <= r.Time && !p.endedBefore(r.Time)
}

// exact reports whether both start times are those of the kernel.
func (p *Process) exact(r *RawEvent) bool { return p.StartUnit == 1 && r.Task.StartUnit == 1 }

// endedBefore reports whether p is known to have ended before a time.
func (p *Process) endedBefore(time uint64) bool {
	return p.Exited && p.Known.Has(FieldExit) && p.Task.Exit.Time < time
}

// bornBy is a time at or before which the process of r was born: as close as its
// start time tells, else the time of the event.
func (r *RawEvent) bornBy(bootOffset uint64) uint64 {
	if !r.Task.Known.Has(FieldStart) {
		return r.Time
	}
	return min(r.Task.Start-min(bootOffset, r.Task.Start), r.Time)
}

// apply brings the table up to date with r and returns the process. bootOffset
// is CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
func (t *table) apply(r *RawEvent, bootOffset, now uint64) *Process {
	p := t.find(r)
	if p == nil {
		born := r.bornBy(bootOffset)
		if r.Kind == KindFork && !r.Thread {
			born = r.Time
		}
		p = t.add(r.PID, born)
		// A pid has one process at a time: the end of those before was lost.
		for o := p.older; o != nil; o = o.older {
			t.markExited(o, now)
		}
	}
	if r.Thread {
		return p // what a thread does leaves the state of its group as it is
	}
	switch r.Kind {
	case KindFork:
		p.forked = true
		t.rebirth(p, r.Time)
		p.clearImage()
		if r.Creator != 0 {
			if c := t.at(r.Creator, r.Time); c != nil && c != p {
				p.inherit(c, r.Time)
			}
		}
	case KindExec:
		p.saveImage(r.Time)
	}
	p.Known &^= r.changed() &^ r.Task.Known
	if r.Kind == KindExit && p.Known.Has(FieldPPID) && t.orphaned(p, r.Time) {
		p.Known &^= FieldPPID.Set() // unless r tells the new parent
	}
	t.update(p, r)
	if r.Kind == KindExit {
		t.markExited(p, now)
	}
	return p
}

// orphaned is whether p may have another parent than its first at that time: that
// one has ended, or is not in the table.
func (t *table) orphaned(p *Process, time uint64) bool {
	parent := t.at(p.PPID, time)
	return parent == nil || parent.Exited
}

// changed is the set of fields that the kernel may have changed with the event:
// those that the source does not report with it are unknown from then on.
func (r *RawEvent) changed() (s Fields) {
	switch r.Kind {
	case KindFork:
		s = s.With(FieldComm)
	case KindExec: // saved ids become the effective ones
		s = s.With(FieldComm).With(FieldCaps).With(FieldSUID).With(FieldSGID)
		// What a process changes on its way to exec, and no event tells.
		s |= FieldsNS | Fields(1<<FieldPGID|1<<FieldTTY|1<<FieldCwd|1<<FieldCgroup)
	case KindComm:
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

// unchanged is the part of r.IDChange that sets ids to what they were already.
// What is not known to be so counts as a change.
func (t *table) unchanged(r *RawEvent) (same IDChange) {
	p := t.find(r)
	if p == nil || r.Thread || p.sighted >= r.Time {
		return 0
	}
	known, o, n := p.Known&r.Task.Known, &p.Cred, &r.Task.Cred
	if known.Has(FieldUIDs) && known.Has(FieldSUID) && o.UID == n.UID && o.EUID == n.EUID && o.SUID == n.SUID {
		same |= ChangedUID
	}
	if known.Has(FieldGIDs) && known.Has(FieldSGID) && o.GID == n.GID && o.EGID == n.EGID && o.SGID == n.SGID {
		same |= ChangedGID
	}
	return same
}

// learn takes a process that /proc shows now into the table.
func (t *table) learn(r *RawEvent, bootOffset uint64) *Process {
	p := t.lookup(r.PID)
	if p == nil || !(p.Known.Has(FieldStart) && p.sameStart(&r.Task)) {
		p = t.add(r.PID, r.bornBy(bootOffset))
	}
	p.sighted = r.Time
	p.imageSince = r.Time
	t.update(p, r)
	return p
}

// update copies the fields that r knows. A start time, once known, stays: it
// is part of the identity.
func (t *table) update(p *Process, r *RawEvent) {
	k := r.Task.Known
	s := &r.Task
	if k.Has(FieldStart) && !p.Known.Has(FieldStart) {
		p.Start, p.StartUnit = s.Start, max(s.StartUnit, 1)
	}
	if k.Has(FieldPPID) {
		p.PPID = s.PPID
	}
	if k.Has(FieldPGID) {
		p.PGID = s.PGID
	}
	if k.Has(FieldSID) {
		p.SID = s.SID
	}
	if k.Has(FieldUIDs) {
		p.Cred.UID, p.Cred.EUID = s.Cred.UID, s.Cred.EUID
	}
	if k.Has(FieldSUID) {
		p.Cred.SUID = s.Cred.SUID
	}
	if k.Has(FieldGIDs) {
		p.Cred.GID, p.Cred.EGID = s.Cred.GID, s.Cred.EGID
	}
	if k.Has(FieldSGID) {
		p.Cred.SGID = s.Cred.SGID
	}
	if k.Has(FieldCaps) {
		p.Caps = s.Caps
	}
	if k.Has(FieldTTY) {
		p.TTY = s.TTY
	}
	if k.Has(FieldUTSNS) {
		p.NS.UTS = s.NS.UTS
	}
	if k.Has(FieldIPCNS) {
		p.NS.IPC = s.NS.IPC
	}
	if k.Has(FieldMntNS) {
		p.NS.Mnt = s.NS.Mnt
	}
	if k.Has(FieldNetNS) {
		p.NS.Net = s.NS.Net
	}
	if k.Has(FieldExit) {
		p.Task.Exit = s.Exit
	}
	t.updateName(&p.Comm, r, FieldComm)
	t.updateName(&p.Filename, r, FieldFilename)
	t.updateName(&p.Cwd, r, FieldCwd)
	t.updateName(&p.Cgroup, r, FieldCgroup)
	if k.Has(FieldCmdline) {
		p.Cmdline = append(p.Cmdline[:0], r.Bytes(FieldCmdline)...)
	}
	p.Known |= k
	p.Truncated = p.Truncated&^k | s.Truncated&k
}

func (t *table) updateName(dst *string, r *RawEvent, f Field) {
	if !r.Task.Known.Has(f) {
		return
	}
	if b := r.Bytes(f); *dst != string(b) {
		*dst = t.names.get(b)
	}
}

// clearImage forgets the image: that of a new process is its creator's or unknown.
func (p *Process) clearImage() {
	p.Filename, p.Cmdline = "", p.Cmdline[:0]
	p.Known &^= imageFields
	p.Truncated &^= imageFields
}

// inherit gives a child forked at a time the image that c had then.
func (p *Process) inherit(c *Process, time uint64) {
	p.imageSince = time
	switch {
	case c.imageSince <= time:
		p.setImage(c.Known, c.Truncated, c.Filename, c.Cmdline)
	case c.before.since <= time && time < c.before.until:
		p.setImage(c.before.known, c.before.truncated, c.before.filename, c.before.cmdline)
	}
}

func (p *Process) setImage(known, truncated Fields, filename string, cmdline []byte) {
	p.Known |= known & imageFields
	p.Truncated |= truncated & imageFields
	p.Filename = filename
	p.Cmdline = append(p.Cmdline[:0], cmdline...)
}

// saveImage sets the image aside that an exec at a time replaces, and makes the
// new one unknown until the event says what it is.
func (p *Process) saveImage(time uint64) {
	p.before.known, p.before.truncated = p.Known&imageFields, p.Truncated&imageFields
	p.before.since, p.before.until = p.imageSince, time
	p.before.filename = p.Filename
	p.before.cmdline, p.Cmdline = p.Cmdline, p.before.cmdline[:0]
	p.clearImage()
	p.imageSince = time
}
