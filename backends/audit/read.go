package audit

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/proctext"
)

// constant are the fields that never change in a process.
const constant = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPIDNS)

// ofRecords are the fields that only the records of a birth or an exec supply.
const ofRecords = engine.FieldsIDs | engine.Fields(1<<engine.FieldComm|1<<engine.FieldBirthParentTID|1<<engine.FieldExecPath|
	1<<engine.FieldLogin|1<<engine.FieldArgs)

// atBirth and atExec are the fields that are read from /proc. A child has its creator's image.
const (
	atBirth = procfs.Readable &^ ofRecords &^ procfs.Replaced
	atExec  = procfs.Readable &^ ofRecords &^ (1 << engine.FieldPPID)
)

// readProcesses reads the processes of the newly arrived events.
func (s *Source) readProcesses() {
	if len(s.toRead) > 0 {
		s.boot.Update()
	}
	for _, e := range s.toRead {
		switch e.ev.Kind {
		case engine.KindFork:
			s.readBirth(e)
		case engine.KindExec:
			s.read(e, e.pid, atExec)
		case engine.KindExit, engine.KindIDChange:
			s.read(e, e.pid, engine.FieldStart.Set())
		}
		e.at = s.now()
	}
	clear(s.toRead)
	s.toRead = s.toRead[:0]
}

// read adds values from /proc to an event, marked as cached unless they never change. It reports
// whether they can belong to the event's process.
func (s *Source) read(e *event, pid uint32, want engine.Fields) bool {
	t := &e.ev.Task
	st, err := s.proc.Read(pid, want, e.ev)
	e.got = t.Known
	if err != nil || st.Thread || !s.boot.StartedBy(t.Start, e.received) {
		e.forget(engine.AllFields)
		return false
	}
	t.Cached = e.got &^ constant
	e.ev.Read = s.now()
	return true
}

// readBirth decides whether a call created a process, and whether the returned number is its pid in
// the initial namespace. This is so if the caller or its child is in that namespace. clone3(2) may
// have created a thread.
func (s *Source) readBirth(e *event) {
	t := &e.ev.Task
	shown := s.read(e, e.child(), atBirth) && !s.boot.StartedBefore(t.Start, e.stamp)
	isChild := shown && t.Known.Has(engine.FieldPIDNS) && t.NS.PID == proctext.InitialPIDNamespace && t.PPID == e.pid
	e.born = isChild || s.isInitial(e.pid, e.stamp) && (shown || e.nr != auditrecord.Clone3)
	if !shown || !e.born {
		e.forget(engine.AllFields)
	}
}

// isInitial reports whether the process that made a call is in the initial pid namespace.
func (s *Source) isInitial(pid uint32, at uint64) bool {
	t := &s.scratch.Task
	s.scratch.Reset()
	_, err := s.proc.Read(pid, constant, &s.scratch)
	return err == nil && t.Known.Has(engine.FieldPIDNS) && t.NS.PID == proctext.InitialPIDNamespace && s.boot.StartedBefore(t.Start, at)
}

// verify drops the values from /proc if they may belong to the next process with the pid: if that
// process did not exist before the call, and its birth has arrived or may be lost.
func (s *Source) verify(e *event) {
	if !s.boot.StartedBefore(e.ev.Task.Start, e.stamp) && (s.doubtful(e) || s.queue.reborn(e, e.ev.PID)) {
		e.forget(engine.AllFields)
	}
}

// forget drops fields from /proc.
func (e *event) forget(fields engine.Fields) {
	fields &= e.got
	t := &e.ev.Task
	t.Known &^= fields
	t.Cached &^= fields
	t.Truncated &^= fields
	e.got &^= fields
}
