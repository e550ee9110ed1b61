package cnproc

import "github.com/quark-linux/quark/engine"

// fact is a conclusion that the tracker draws from a message.
type fact struct {
	kind   engine.Kind
	thread bool     // of one thread, not of its process
	m      *message // valid until the call returns; nil for a gap
	seq    uint64   // number of the message on its CPU

	status   int32  // KindExit: the wait status
	known    bool   // status is certain
	doubtful bool   // a loss may have hidden that the pid is another process's now
	unsure   bool   // KindExit: the status is unknown if another end of the pid follows
	seen     uint64 // KindExit: the end of the latest process if the next was born before
	older    bool   // KindExit: the pid is another process's by now
	unseen   bool   // KindExit: /proc showed it, at the time of the stamp
	gap      engine.Gap
}

// held reports whether f is the end of a process and its event waits in the queue: the next process
// of its pid may be born before its stamp, because the parent has waited for it.
func (f *fact) held() bool {
	return f.kind == engine.KindExit && !f.thread && (f.seen != 0 || f.unseen || !f.older && f.m.reaped())
}

// fill makes ev the event of a fact that is of a message.
func (f *fact) fill(ev *engine.RawEvent) {
	m, t := f.m, &ev.Task
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Seq, ev.Time = f.kind, m.pid, m.tid, m.cpu, f.seq, m.time
	ev.Thread = f.thread
	switch f.kind {
	case engine.KindExec:
		t.Cached |= f.ofOther()
	case engine.KindFork:
		setParent(t, m)
		if f.thread {
			ev.Creator = m.pid
		} else {
			t.ParentTID = m.parentTID
			t.Known |= engine.FieldBirthParentTID.Set()
		}
	case engine.KindExit:
		if !f.thread {
			setParent(t, m)
			if m.tid == m.pid && m.exitSignal >= 0 {
				t.ParentSignal = uint32(m.exitSignal)
				t.Known |= engine.FieldParentSignal.Set()
			}
		}
		if f.known {
			t.Exit = engine.Exit{WaitStatus: f.status, Time: m.time}
			t.Known |= engine.FieldExit.Set()
		}
	case engine.KindCoreDump:
		setParent(t, m)
	case engine.KindSetProcTitle:
		ev.Set(engine.FieldComm, m.newComm())
	case engine.KindPtrace:
		ev.Tracer.PID, ev.Tracer.TID = m.args[1], m.args[0]
	case engine.KindIDChange:
		ev.IDChange = setIDs(t, m)
		t.Cached |= f.ofOther() &^ t.Known
		if m.what != SID && !f.thread { // an exec, which can fail yet, sets comm as well
			t.Cached |= engine.FieldComm.Set()
		}
		if m.what == UID && !f.thread { // and reports the group ids in a second message
			t.Cached |= ofGroup
		}
	}
}

// ofOther returns the fields that become another thread's, if a thread with ids of its own has
// taken the leader's number to execute. No message reports them.
func (f *fact) ofOther() engine.Fields {
	if f.m.threads && !f.thread && f.m.what != SID {
		return engine.FieldsIDs
	}
	return 0
}

// setParent sets the parent that the kernel reports: real_parent, which for a child made with
// CLONE_PARENT is not who made it.
func setParent(t *engine.Task, m *message) {
	if m.ppid != 0 { // 0 also at the end of a process that was waited for already
		t.PPID = m.ppid
		t.Known |= engine.FieldPPID.Set()
	}
}

// setIDs sets the new ids and returns which they are.
func setIDs(t *engine.Task, m *message) engine.IDChange {
	switch m.what {
	case UID:
		t.Cred.UID, t.Cred.EUID = m.args[0], m.args[1]
		t.Known |= engine.FieldUIDs.Set()
		return engine.ChangedUID
	case GID:
		t.Cred.GID, t.Cred.EGID = m.args[0], m.args[1]
		t.Known |= engine.FieldGIDs.Set()
		return engine.ChangedGID
	}
	// setsid(2) makes the caller's group leader the leader of all three.
	t.SID, t.PGID = m.pid, m.pid
	t.Known |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	return engine.ChangedSID
}
