package audit

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
)

// conclude inserts the events into the sink that have waited long enough. With force it inserts all
// events. It reports the missing numbers before an event as a gap.
func (s *Source) conclude(force bool) {
	from, lost := s.last, uint64(0)
	for len(s.queue.events) > 0 && s.to.Room() > 0 && (force || s.socket.empty >= s.queue.events[0].at+s.hold) {
		missing := s.queue.hole()
		if missing > 0 {
			s.loss.at = s.now()
		}
		if s.queue.events[0].state != concluded {
			e := s.queue.first(s.latest)
			s.loss.pending = s.loss.pending && e.received <= s.loss.dropped
			if e.state == partial || e.pending() && !s.report(e) {
				missing++
			}
			s.drop(e)
		}
		s.queue.trim()
		lost += missing
	}
	if lost > 0 {
		cause := engine.LossScratch
		if s.loss.dropped != 0 && s.loss.dropped+s.wall.slack >= from {
			cause = engine.LossSocketFull
		}
		s.gap(cause, from, lost)
	}
}

// drop ends an event.
func (s *Source) drop(e *event) {
	if e.ev != nil {
		s.to.Release(e.ev)
	}
	e.ev, e.state = nil, concluded
}

// report makes the raw event of an event. It returns false if a missing record leaves open whether
// something happened.
func (s *Source) report(e *event) bool {
	switch {
	case e.isBirth():
		s.reportBirth(e)
	case e.nr == auditrecord.ExecAt && e.success && !e.args.Some():
		// AT_EXECVE_CHECK (Linux 6.14) only asks whether a file may be executed.
		return e.state == complete && !s.doubtful(e)
	case e.ev == nil:
	case e.executes():
		s.reportExec(e)
	case e.isExec():
		s.reportFailed(e)
	case e.isEnd():
		s.reportEnd(e)
	default: // setsid
		s.verify(e)
		t := &e.ev.Task
		t.SID, t.PGID = e.pid, e.pid
		t.Known |= engine.SetOf(engine.FieldSID, engine.FieldPGID)
		e.ev.IDChange = engine.ChangedSID
		s.insert(e)
	}
	return true
}

// insert inserts an event into the sink. Its time is not before the start of the call and not
// before the previous event. A birth can return long after its child has started. So the time is
// also not before the actions of the caller, and of earlier processes with the pid.
func (s *Source) insert(e *event) {
	ev := e.ev
	e.ev = nil
	ev.Time = min(e.stamp+s.wall.slack, e.received)
	if ev.Kind == engine.KindFork {
		ev.Time = max(ev.Time, s.latest[e.pid].time, s.latest[ev.PID].time)
	} else {
		ev.Time = max(ev.Time, s.last)
	}
	s.last = max(s.last, ev.Time)
	s.setLatest(ev.PID, latest{e.stamp, ev.Time, ev.Kind == engine.KindExit})
	if ev.Kind == engine.KindExit {
		ev.Task.Exit.Time = ev.Time
		s.handed += uint64(s.shared.InsertExit(s.to, ev))
		return
	}
	s.to.Insert(ev)
	s.handed++
}

func (s *Source) setLatest(pid uint32, l latest) {
	if len(s.latest) >= 1<<16 {
		clear(s.latest)
	}
	s.latest[pid] = l
}

// setCaller sets the caller's fields that SYSCALL reports, and its parent.
func (e *event) setCaller(parent uint32) {
	t := &e.ev.Task
	t.Cred, t.Login, t.PPID = e.cred, e.login, parent
	t.Known |= engine.FieldsIDs | engine.SetOf(engine.FieldLogin, engine.FieldPPID)
	t.Cached &^= engine.FieldPPID.Set()
}

// reportBirth reports a FORK, unless an event of the child was already reported. This can happen
// after vfork(2), if the creator waits long: the child's event then began the process.
func (s *Source) reportBirth(e *event) {
	child, parent := e.child(), e.pid
	if s.latest[child].stamp >= e.stamp {
		return
	}
	s.setLatest(child, latest{stamp: e.stamp, time: s.latest[child].time})
	if e.ev == nil || !e.born {
		return
	}
	s.verify(e)
	t := &e.ev.Task
	// The flags of clone3(2) are unknown, and can include CLONE_PARENT.
	known := e.nr != auditrecord.Clone3 || t.Known.Has(engine.FieldPPID) && t.PPID == e.pid
	if e.nr == auditrecord.Clone && e.a0&unix.CLONE_PARENT != 0 {
		parent = e.ppid
	}
	if e.setCaller(parent); !known {
		t.Known &^= engine.FieldPPID.Set()
	}
	e.ev.Creator = e.pid
	s.insert(e)
}

func (s *Source) reportExec(e *event) {
	s.verify(e)
	e.setCaller(e.ppid)
	ev, t := e.ev, &e.ev.Task
	ev.Set(engine.FieldComm, e.comm)
	if e.args.Complete() {
		if ev.Set(engine.FieldArgs, e.args.Text); e.args.Cut {
			t.Truncated |= engine.FieldArgs.Set()
		}
	}
	if e.hasPath {
		ev.Set(engine.FieldExecPath, e.path)
	}
	// exe is a path from the root of the process if it is reachable from there, which the
	// record does not show. It is reachable if the caller passed the same path.
	if bytes.HasPrefix(e.path, []byte("/")) && bytes.Equal(e.path, e.exe) && !bytes.HasSuffix(e.exe, []byte(" (deleted)")) {
		ev.Set(engine.FieldExe, e.exe)
		t.Cached &^= engine.FieldExe.Set()
		t.Truncated &^= engine.FieldExe.Set()
	}
	s.insert(e)
}

// reportFailed reports a failed exec. After EINTR the kernel may repeat the call, after EAGAIN
// another thread may have executed, and a late failure ends the process.
func (s *Source) reportFailed(e *event) {
	errno := unix.Errno(-e.result)
	ended := s.queue.later(e, func(o *event) bool { return o.nr == abend || errno == unix.EAGAIN && o.executes() })
	if errno == 0 || errno > 4095 || errno == unix.EINTR || ended != nil {
		return
	}
	if e.ev.Errno = uint16(errno); e.hasPath {
		e.ev.Set(engine.FieldExe, e.path)
	}
	s.insert(e)
}

// reportEnd reports the EXIT of a process in which a thread called exit_group, unless another
// thread executes or still exists.
func (s *Source) reportEnd(e *event) {
	certain := !s.doubtful(e)
	exec := s.queue.later(e, func(o *event) bool {
		if o.isEnd() { // any of them may decide
			certain = certain && o.a0&0xff == e.a0&0xff
			s.drop(o)
		}
		return o.executes()
	})
	st, start, err := s.proc.Status(e.pid)
	goesOn := err == nil && !st.Over() && !st.Ending && s.boot.StartedBy(start, e.received) && !s.queue.reborn(e, e.pid)
	if exec != nil || goesOn {
		return
	}
	s.verify(e)
	t := &e.ev.Task
	t.PPID = e.ppid
	t.Known |= engine.FieldPPID.Set()
	if certain { // unless a signal right before decides
		t.Exit.WaitStatus = int32(e.a0&0xff) << 8
		t.Known |= engine.FieldExit.Set()
		t.Cached |= engine.FieldExit.Set()
	}
	s.insert(e)
}
