package audit

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/proctext"
)

// What /proc has of a process is given to an event only if it is of the same process:
//
//   - that started before the call began, by the start time in /proc, which has ticks of 10 ms;
//   - or, if it may have started later, no other birth of its pid has come, and nothing was lost.
//
// But for what never changes it is marked as carried: it is of right after the event. A birth that
// audit does not tell, in the same some 15 ms and of the same pid, would go unnoticed: the kernel
// uses no number again before it has used all others, unless its creator chooses it.

// constant are the fields that never change in a life.
const constant = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)

// ofRecords are the fields that are only taken from records.
const ofRecords = engine.Fields(1<<engine.FieldComm | 1<<engine.FieldParentTID | 1<<engine.FieldExecPath)

// ofImage are the fields of /proc that another exec changes.
const ofImage = procfs.Image | 1<<engine.FieldCaps

// inFlight is how long a record may come after the end of its call, in ns: a thread of the kernel
// sends it.
const inFlight = 5_000_000

// look reads the processes of the events that have come.
func (s *Source) look() {
	if len(s.toRead) > 0 {
		s.clock.Update()
	}
	for i, e := range s.toRead {
		s.toRead[i] = nil
		switch {
		case e.isBirth():
			s.lookBirth(e)
		case e.call == auditrecord.Exec || e.call == auditrecord.ExecAt:
			s.describeProcess(e, e.pid, (procfs.Readable&^ofRecords&^e.has)|1<<engine.FieldStart)
		case e.call == auditrecord.ExitGroup || e.call == auditrecord.Exit:
			s.lookEnd(e)
		default:
			s.lookIDs(e)
		}
	}
	s.toRead = s.toRead[:0]
}

// describeProcess gives an event what /proc has of its process, if it can be of that.
func (s *Source) describeProcess(e *event, pid uint32, want engine.Fields) (st procfs.Status, ok bool) {
	t := &e.ev.Task
	known, truncated := t.Known, t.Truncated
	st, err := s.proc.Read(pid, want, e.ev)
	e.read = s.now()
	if err != nil || st.Thread || !s.clock.StartedBy(t.Start, e.received) {
		t.Known, t.Truncated = known, truncated
		return st, false
	}
	e.got = t.Known &^ known
	t.Carried |= e.got &^ constant
	e.ev.Read = e.read
	return st, true
}

// lookBirth finds out whether a call has made a process whose number is that of the initial pid
// namespace. That is so if the caller is in it, which never changes, or if the child is and has the
// caller as its parent: who is in another namespace has no children in this one.
func (s *Source) lookBirth(e *event) {
	t := &e.ev.Task
	child := e.child()
	want := (procfs.Readable &^ ofRecords &^ e.has) | 1<<engine.FieldStart | 1<<engine.FieldPIDNS | 1<<engine.FieldPPID
	st, ok := s.describeProcess(e, child, want)
	ok = ok && !s.clock.StartedBefore(t.Start, e.stamp) // else it is an older one
	switch {
	case ok && t.Known.Has(engine.FieldPIDNS) && t.NS.PID == proctext.InitialPIDNamespace && t.Known.Has(engine.FieldPPID) && t.PPID == e.pid:
		e.born = true
	case s.isInitial(e.pid, e.stamp):
		e.born = ok || e.call != auditrecord.Clone3
		e.unborn = st.Thread
	}
	if !ok || !e.born {
		e.forget(engine.AllFields)
	} else if !st.ForkNoExec && !st.Kthread {
		e.forget(procfs.Replaced)
	}
}

// isInitial reports whether a process that made a call at a time is in the initial pid namespace.
func (s *Source) isInitial(pid uint32, at uint64) bool {
	ev := &s.scratch
	ev.Reset()
	_, err := s.proc.Read(pid, 1<<engine.FieldStart|1<<engine.FieldPIDNS, ev)
	t := &ev.Task
	return err == nil && t.Known.Has(engine.FieldPIDNS) && t.NS.PID == proctext.InitialPIDNamespace && s.clock.StartedBefore(t.Start, at)
}

// lookEnd reads how a process has ended, if its parent has not waited for it yet.
func (s *Source) lookEnd(e *event) {
	if !s.showStatus || e.ev.Task.Known.Has(engine.FieldExit) {
		return
	}
	status, start, ok := s.proc.ExitStatus(e.pid)
	if !ok || !s.clock.StartedBy(start, e.received) {
		return
	}
	t := &e.ev.Task
	t.Exit, t.Start, t.StartUnit = engine.Exit{WaitStatus: status}, start, engine.ProcStartUnit
	e.got, e.read = engine.SetOf(engine.FieldExit, engine.FieldStart), s.now()
	t.Known |= e.got
}

// lookIDs reads the ids of a process's leader: a record does not say which thread made the call.
func (s *Source) lookIDs(e *event) {
	ev := &s.scratch
	ev.Reset()
	_, err := s.proc.Read(e.pid, engine.FieldsIDs|1<<engine.FieldStart, ev)
	e.read = s.now()
	t := &ev.Task
	if err != nil || !s.clock.StartedBy(t.Start, e.received) || t.Known&engine.FieldsIDs != engine.FieldsIDs {
		return
	}
	e.leader, e.got = t.Cred, engine.FieldStart.Set()
	e.ev.Task.Start, e.ev.Task.StartUnit = t.Start, t.StartUnit
	e.ev.Task.Known |= engine.FieldStart.Set()
}

// certain reports whether the process of a pid that was read is that of the event.
func (s *Source) certain(e *event, pid uint32) bool {
	if s.clock.StartedBefore(e.ev.Task.Start, e.stamp) {
		return true
	}
	if s.noted < e.read+inFlight || s.lostSince(e) || s.backlog.gone {
		return false
	}
	for _, o := range s.queue.events {
		if o != e && o.bears(pid) && o.stamp <= e.read {
			return false
		}
	}
	return true
}

// startOf returns the start time of the process of a pid that was read with an event, 0 if it is
// not certain to be of that.
func (s *Source) startOf(e *event, pid uint32) uint64 {
	if e.ev == nil || !e.got.Has(engine.FieldStart) || !s.certain(e, pid) {
		return 0
	}
	return e.ev.Task.Start
}

// prove takes away what was read unless it is certain to be of the process of the event.
func (s *Source) prove(e *event, pid uint32) {
	if e.got == 0 || s.certain(e, pid) {
		return
	}
	if s.noted < e.received+s.hold && !s.finishing {
		s.unread++
	}
	e.forget(engine.AllFields)
}

// forget takes away some of what was read.
func (e *event) forget(fields engine.Fields) {
	fields &= e.got
	t := &e.ev.Task
	t.Known &^= fields
	t.Carried &^= fields
	t.Truncated &^= fields
	e.got &^= fields
}
