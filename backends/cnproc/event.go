package cnproc

import "github.com/quark-linux/quark/engine"

// fill makes ev the event of a fact that is of a message.
func (f *fact) fill(ev *engine.RawEvent) {
	m, t := f.m, &ev.Task
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Seq, ev.Time = f.kind, m.pid, m.tid, m.cpu, f.seq, m.time
	ev.Thread = f.thread
	switch f.kind {
	case engine.KindFork:
		setParent(t, m)
	case engine.KindExit:
		if !f.thread {
			setParent(t, m)
		}
		if f.known {
			t.Exit = engine.Exit{WaitStatus: f.status, Time: m.time}
			t.Known |= engine.FieldExit.Set()
		}
	case engine.KindCoreDump:
		setParent(t, m)
	case engine.KindComm:
		ev.Set(engine.FieldComm, m.newComm())
	case engine.KindPtrace:
		ev.Tracer.PID, ev.Tracer.TID = m.tpid, m.ttid
	case engine.KindIDChange:
		ev.IDChange = setIDs(t, m)
	}
}

// setParent sets the parent as the kernel says it: real_parent, which for a child made with
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
		t.Cred.UID, t.Cred.EUID = m.real, m.eff
		t.Known |= engine.FieldUIDs.Set()
		return engine.ChangedUID
	case GID:
		t.Cred.GID, t.Cred.EGID = m.real, m.eff
		t.Known |= engine.FieldGIDs.Set()
		return engine.ChangedGID
	}
	// setsid(2) makes the caller's group leader the leader of all three.
	t.SID, t.PGID = m.pid, m.pid
	t.Known |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	return engine.ChangedSID
}
