package cnproc

import (
	"bytes"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// kinds maps each kind of message to the kind of its event.
var kinds = map[What]engine.Kind{
	Fork: engine.KindFork, Exec: engine.KindExec, Exit: engine.KindExit, Comm: engine.KindSetProcTitle, Ptrace: engine.KindPtrace,
	UID: engine.KindIDChange, GID: engine.KindIDChange, SID: engine.KindIDChange,
}

// fact is a conclusion that the tracker draws from a message.
type fact struct {
	kind   engine.Kind
	thread bool     // about one thread, not its process
	m      *message // valid until the call returns; nil for a gap
	seq    uint64   // number of the message on its CPU

	status   int32 // KindExit: the wait status
	known    bool  // status is certain
	doubtful bool  // a loss may have hidden that the pid was reused
	gap      engine.Gap
}

// fill makes ev the event of the fact.
func (f *fact) fill(ev *engine.RawEvent) {
	m, t := f.m, &ev.Task
	ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Seq, ev.Time = f.kind, m.pid, m.tid, m.cpu, f.seq, m.time
	ev.Thread = f.thread
	// The kernel reports real_parent, which is not the creator of a child made with
	// CLONE_PARENT. It reports 0 at the exit of a process that was already waited for.
	if m.ppid != 0 && !(f.thread && f.kind == engine.KindExit) {
		t.PPID = m.ppid
		t.Known |= engine.FieldPPID.Set()
	}
	switch f.kind {
	case engine.KindExec:
		t.Cached |= f.ofOther()
	case engine.KindFork:
		if f.thread {
			ev.Creator = m.pid
		} else {
			t.ParentTID = m.parentTID
			t.Known |= engine.FieldBirthParentTID.Set()
		}
	case engine.KindExit:
		if !f.thread && m.tid == m.pid && m.exitSignal >= 0 {
			t.ParentSignal = uint32(m.exitSignal)
			t.Known |= engine.FieldParentSignal.Set()
		}
		if f.known {
			t.Exit = engine.Exit{WaitStatus: f.status, Time: m.time}
			t.Known |= engine.FieldExit.Set()
		}
	case engine.KindSetProcTitle:
		comm, _, _ := bytes.Cut(m.comm[:], []byte{0})
		ev.Set(engine.FieldComm, comm)
	case engine.KindPtrace:
		ev.Tracer.PID, ev.Tracer.TID = m.args[1], m.args[0]
	case engine.KindIDChange:
		f.setIDs(ev)
	}
}

// setIDs sets the new ids.
func (f *fact) setIDs(ev *engine.RawEvent) {
	m, t := f.m, &ev.Task
	t.Cached |= f.ofOther()
	switch m.what {
	case UID:
		ev.IDChange, t.Cred.UID, t.Cred.EUID = engine.ChangedUID, m.args[0], m.args[1]
		t.Known |= engine.FieldUIDs.Set()
		if !f.thread { // an exec reports the group ids in a second message
			t.Cached |= ofGroup
		}
	case GID:
		ev.IDChange, t.Cred.GID, t.Cred.EGID = engine.ChangedGID, m.args[0], m.args[1]
		t.Known |= engine.FieldGIDs.Set()
	default: // setsid(2) sets both to the pid
		ev.IDChange, t.SID, t.PGID = engine.ChangedSID, m.pid, m.pid
		t.Known |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	}
	if m.what != SID && !f.thread { // an exec also sets comm, and can still fail
		t.Cached |= engine.FieldComm.Set()
	}
	t.Cached &^= t.Known
}

// ofOther returns the fields that may have the values of another thread. A thread with its own ids
// can execute and take the leader's number, and no message reports these ids.
func (f *fact) ofOther() engine.Fields {
	if f.m.threads && !f.thread && f.m.what != SID {
		return engine.FieldsIDs
	}
	return 0
}

// wanted returns the fields to read from /proc for the event of the fact.
func (f *fact) wanted(o *source.Options) (want engine.Fields) {
	switch {
	case f.thread, f.kind == engine.KindExit && f.m.reaped():
		return 0 // /proc shows the values of another task
	case f.kind == engine.KindFork:
		return procfs.Readable &^ engine.FieldLogin.Set() // inherited from the creator
	case f.kind == engine.KindExec:
		return procfs.Readable
	case f.kind == engine.KindExit && failuresOnly(o):
		want = zombieFields
	case f.kind == engine.KindExit:
		want = engine.FieldExit.Set()
	case f.m.what == UID:
		want = engine.SetOf(engine.FieldSUID, engine.FieldCaps, engine.FieldComm) | f.ofOther()
	case f.m.what == GID:
		want = engine.SetOf(engine.FieldSGID, engine.FieldComm) | f.ofOther()
	}
	if f.doubtful || !o.Reports(engine.EventFork) && f.kind != engine.KindExit {
		want |= engine.FieldStart.Set()
	}
	if !showsStatus {
		want &^= engine.FieldExit.Set()
	}
	return want
}

// showsStatus is set if /proc shows the status of an ended process.
var showsStatus = kernelversion.AtLeast("6.1")

// failuresOnly reports whether only failing exits are wanted. /proc is then read at the exit,
// because no earlier event is delivered.
func failuresOnly(o *source.Options) bool {
	return o.Kinds == engine.EventExit && o.Exits == source.ExitsNonzero
}
