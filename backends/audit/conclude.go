package audit

import (
	"bytes"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
)

// begin gives an event whose call is known the raw event that it may become.
func (s *Source) begin(e *event) {
	kind, wanted := engine.KindFork, true
	switch e.call {
	case auditrecord.Fork, auditrecord.Clone, auditrecord.Clone3:
		wanted = e.isBirth() && s.shared.Reports(engine.EventFork)
	case auditrecord.Exec, auditrecord.ExecAt:
		if kind = engine.KindExec; !e.success {
			kind = engine.KindExecFailed
		}
		wanted = s.shared.Reports(kind.Events())
	case auditrecord.ExitGroup, auditrecord.Exit:
		kind = engine.KindExit
		wanted = s.shared.Reports(engine.EventExit)
	case auditrecord.SetUID, auditrecord.SetGID, auditrecord.SetSID:
		kind = engine.KindIDChange
		wanted = e.success && s.shared.Reports(engine.EventIDChange)
	default:
		wanted = false
	}
	// Whether clone3 has made a thread is needed also if births are not.
	if !wanted && !(e.call == auditrecord.Clone3 && e.success) {
		return
	}
	e.ev = s.to.Reserve()
	ev := e.ev
	ev.Kind, ev.PID, ev.TID = kind, e.pid, e.pid
	if kind == engine.KindFork {
		ev.PID, ev.TID = e.child(), e.child()
	}
	if kind != engine.KindExecFailed && e.call != auditrecord.SetSID {
		s.toRead = append(s.toRead, e)
	}
}

// due returns until when the socket has to be read for an event to be certain.
func (s *Source) due(e *event) uint64 { return max(e.received+s.hold, e.read+inFlight, e.again) }

// settle gives the events to the sink that are certain, or with force or early all. It returns
// those that are lost, of which only a part has come.
func (s *Source) settle(force, early bool) (lost loss) {
	for s.to.Room() > 0 {
		e := s.queue.first(s.isNew)
		if e == nil || !force && !early && s.noted < s.due(s.queue.oldest()) {
			break
		}
		if !e.known || e.isCheck() && s.mayMiss(e) {
			lost.add(e.missing)
			s.drop(e)
			continue
		}
		if !s.conclude(e, force) {
			break
		}
		if !e.complete {
			if len(s.early) >= 1<<10 {
				s.early = s.early[1:]
			}
			s.early = append(s.early, e.serial)
		}
		s.drop(e)
	}
	return lost
}

// drop forgets an event.
func (s *Source) drop(e *event) {
	if e.ev != nil {
		s.to.Release(e.ev)
	}
	if !e.complete {
		s.open = slices.DeleteFunc(s.open, func(o *event) bool { return o == e })
	}
	s.queue.remove(e)
}

func (s *Source) isNew(pid uint32) bool { return !s.lives[pid].begun && !s.births[pid] }

// insert gives an event to the sink, with its time: one after the begin of the call, and no earlier
// than that of the event before.
func (s *Source) insert(e *event) {
	ev := e.ev
	e.ev = nil
	s.last = max(s.last, min(e.stamp+s.slack, e.received))
	ev.Time = max(s.last, s.opened)
	if len(s.told) >= maxLives {
		clear(s.told)
		s.untold = s.last
	}
	s.told[ev.PID] = e.stamp
	if ev.Kind != engine.KindExit {
		s.to.Insert(ev)
		s.handed++
		return
	}
	if ev.Task.Known.Has(engine.FieldExit) {
		ev.Task.Exit.Time = ev.Time
	}
	s.handed += uint64(s.exits.InsertExit(s.to, ev))
}

// conclude makes an event of the one that happened first. It returns false if that has to wait.
func (s *Source) conclude(e *event, force bool) bool {
	switch e.call {
	case auditrecord.Fork, auditrecord.Clone, auditrecord.Clone3:
		s.concludeBirth(e)
	case auditrecord.Exec, auditrecord.ExecAt:
		if e.success {
			s.concludeExec(e)
		} else if e.ev != nil {
			s.concludeFailed(e)
		}
	case auditrecord.ExitGroup, auditrecord.Exit:
		return s.concludeEnd(e, force)
	case auditrecord.SetUID, auditrecord.SetGID, auditrecord.SetSID:
		if e.ev != nil {
			s.concludeIDs(e)
		}
	}
	return true
}

// report sets what a record says of the process that made the call.
func (e *event) report(fields engine.Fields) {
	t := &e.ev.Task
	if fields &= e.has; fields&engine.FieldsIDs != 0 {
		t.Cred = e.cred
	}
	if fields.Has(engine.FieldLogin) {
		t.Login = e.login
	}
	t.Known |= fields
	t.Carried &^= fields
}

func (e *event) setParent(pid uint32) {
	t := &e.ev.Task
	t.PPID = pid
	t.Known |= engine.FieldPPID.Set()
	t.Carried &^= engine.FieldPPID.Set()
}

func (s *Source) concludeBirth(e *event) {
	if e.isBirth() {
		if len(s.births) >= maxLives {
			clear(s.births)
		}
		s.births[e.child()] = true
	}
	if e.makesThread() {
		s.lives.thread(e.pid, e.stamp)
		return
	}
	if !e.born {
		return
	}
	// vfork(2) returns when the child has executed or ended: what it did before was told.
	late := s.told[e.child()] >= e.stamp && s.told[e.child()] != 0 || s.untold > e.stamp+s.slack
	if late && s.lives[e.child()].at >= e.stamp {
		return
	}
	s.lives.begin(e.child(), e, s.startOf(e, e.child()))
	if late || !s.shared.Reports(engine.EventFork) {
		return
	}
	ev, t := e.ev, &e.ev.Task
	s.prove(e, ev.PID)
	if s.isOlder(e) {
		return
	}
	delete(s.older, ev.PID)
	ev.Creator = e.pid
	e.report(engine.FieldsIDs | engine.FieldLogin.Set())
	if e.call == auditrecord.Clone3 { // whose flags are not seen
		if t.PPID != e.pid {
			e.forget(engine.FieldPPID.Set())
		}
	} else {
		signal, sibling := uint32(unix.SIGCHLD), false
		if e.call == auditrecord.Clone {
			signal, sibling = uint32(e.a0)&cloneSignal, e.a0&cloneParent != 0
		}
		if !sibling {
			e.setParent(e.pid)
			t.ExitSignal = signal
			t.Known |= engine.FieldExitSignal.Set()
			t.Carried &^= engine.FieldExitSignal.Set()
		} else {
			e.setParent(e.ppid)
		}
	}
	s.insert(e)
}

func (s *Source) concludeExec(e *event) {
	if e.isCheck() {
		return
	}
	s.lives.begin(e.pid, e, s.startOf(e, e.pid))
	if e.ev == nil {
		return
	}
	s.prove(e, e.pid)
	// What was read may be of the next image.
	for _, o := range s.queue.events {
		if o != e && o.pid == e.pid && o.isExec() && o.stamp <= e.read {
			e.forget(ofImage)
		}
	}
	if s.noted < e.read+inFlight || s.lostSince(e) {
		e.forget(ofImage)
	}
	ev, t := e.ev, &e.ev.Task
	e.report(engine.FieldsIDs | engine.FieldLogin.Set())
	e.setParent(e.ppid)
	ev.Set(engine.FieldComm, e.comm)
	if e.args.Complete() {
		ev.Set(engine.FieldCmdline, e.args.Text)
		t.Carried &^= engine.FieldCmdline.Set()
		if t.Truncated &^= engine.FieldCmdline.Set(); e.args.Cut {
			t.Truncated |= engine.FieldCmdline.Set()
		}
	}
	if e.hasPath {
		ev.Set(engine.FieldExecPath, e.path)
	}
	// The path of the file begins at the root of the process, if it can be reached from there,
	// which the record does not say. It was if the exec was asked for that very path.
	if e.hasPath && len(e.path) > 0 && e.path[0] == '/' && bytes.Equal(e.path, e.exe) && !bytes.HasSuffix(e.exe, []byte(" (deleted)")) {
		ev.Set(engine.FieldFilename, e.exe)
		t.Carried &^= engine.FieldFilename.Set()
	}
	s.insert(e)
}

// concludeFailed tells of an exec that has failed. One that could not go back ends the process.
func (s *Source) concludeFailed(e *event) {
	errno := -e.result
	if at, ended := s.abends[e.pid]; ended && at >= e.received || errno <= 0 || errno > 4095 {
		return
	}
	if errno == int64(unix.EINTR) { // also where the kernel makes the call again
		return
	}
	for _, o := range s.queue.events { // another thread has executed, which has ended this one
		if errno == int64(unix.EAGAIN) && o != e && o.executes(e.pid) {
			return
		}
	}
	e.ev.Errno = uint16(errno)
	if e.hasPath {
		e.ev.Set(engine.FieldFilename, e.path)
	}
	s.insert(e)
}

// longestEnd bounds how long the end of a process may take after its call of exit_group, in ns.
const longestEnd = 300_000_000

// concludeEnd tells of the end of a process. A thread that calls exit_group ends its process,
// unless another one is in the middle of an exec. One that calls exit ends it if it is the only
// one.
func (s *Source) concludeEnd(e *event, force bool) bool {
	p := s.lives[e.pid]
	if p.endedByExec(e) {
		return true
	}
	status, certain := int32(e.a0&0xff)<<8, true
	for _, o := range s.queue.events {
		if o == e || o.pid != e.pid || !o.known || o.bears(e.pid) {
			continue
		}
		switch {
		case o.executes(e.pid) && int32(o.serial-e.serial) > 0 && o.stamp <= e.stamp+longestEnd && s.sameLife(e, o):
			return true // another thread has made it, which has ended this one
		case o.call == auditrecord.ExitGroup && e.call == auditrecord.Exit:
			return true // the process ends with that
		case o.call == auditrecord.ExitGroup && s.sameLife(e, o): // any of them may decide
			if certain = certain && o.a0&0xff == e.a0&0xff; o.ev != nil {
				s.to.Release(o.ev)
				o.ev = nil
			}
		}
	}
	if e.call == auditrecord.Exit && !s.alone(e) || e.ev == nil {
		if e.call == auditrecord.ExitGroup {
			s.forgetLife(e.pid)
		}
		return true
	}
	if !e.gone {
		switch alive, executed := s.goesOn(e); {
		case alive:
			now := s.now()
			if e.until == 0 {
				e.until = now + longestEnd
			}
			if e.again = now + inFlight; !executed && e.call == auditrecord.ExitGroup && !force && now < e.until {
				return false
			}
			if executed || e.call == auditrecord.Exit {
				return true
			}
		case !force:
			s.noteGone(e)
			return false
		}
	}
	s.forgetLife(e.pid)
	s.lookEnd(e)
	s.prove(e, e.pid)
	ev, t := e.ev, &e.ev.Task
	e.setParent(e.ppid)
	if !t.Known.Has(engine.FieldExit) && certain && !s.lostSince(e) {
		// A signal that came right before decides, and has no record.
		t.Exit = engine.Exit{WaitStatus: status}
		t.Known |= engine.FieldExit.Set()
		t.Carried |= engine.FieldExit.Set()
	}
	ev.Kind = engine.KindExit
	s.insert(e)
	return true
}

// noteGone notes that the process of an end is gone, and of which other ends that are due. What
// those did before, as an exec that a call of exit_group did not stop, may still be on the way.
func (s *Source) noteGone(end *event) {
	for _, e := range s.queue.events {
		if e != end {
			if !e.known || !e.isEnd() || e.gone || s.noted < s.due(e) {
				continue
			}
			if alive, _ := s.goesOn(e); alive {
				continue
			}
		}
		e.gone, e.again = true, s.now()+inFlight
	}
}

func (s *Source) forgetLife(pid uint32) {
	delete(s.lives, pid)
	delete(s.births, pid)
}

// sameLife reports whether two calls are of one life: the pid was not used again between them. A
// birth that is still in the queue is not that of the first.
func (s *Source) sameLife(a, b *event) bool {
	return !slices.ContainsFunc(s.queue.events, func(o *event) bool {
		return o.bears(a.pid) && o.stamp <= b.stamp
	})
}

// goesOn reports whether the process of an end is there still and is not about to end, and whether
// it has executed.
func (s *Source) goesOn(e *event) (alive, executed bool) {
	st, start, err := s.proc.Status(e.pid)
	if err != nil || st.Over() || !s.clock.StartedBy(start, e.received) {
		return false, false
	}
	for _, o := range s.queue.events {
		switch {
		case o == e || !o.known:
		case o.bears(e.pid): // it is another process
			return false, false
		case o.executes(e.pid):
			executed = true
		}
	}
	return executed || !st.Ending, executed
}

// concludeIDs tells of a change of ids, if it is of the leader.
func (s *Source) concludeIDs(e *event) {
	ev, t := e.ev, &e.ev.Task
	if e.call == auditrecord.SetSID {
		t.SID, t.PGID = e.pid, e.pid
		t.Known |= engine.SetOf(engine.FieldSID, engine.FieldPGID)
		ev.IDChange = engine.ChangedSID
		s.insert(e)
		return
	}
	s.prove(e, e.pid)
	p := s.lives[e.pid]
	if p.endedByExec(e) {
		return
	}
	if e.got == 0 || !e.hasIDs() || !s.isLeaders(e) {
		s.lives.doubt(e)
		return
	}
	if !s.lives.changed(e, t.Start) {
		return
	}
	if ev.IDChange = engine.ChangedGID; e.call == auditrecord.SetUID {
		ev.IDChange = engine.ChangedUID
	}
	e.forget(engine.FieldStart.Set())
	e.report(engine.FieldsIDs)
	s.insert(e)
}

// isLeaders reports whether a change of ids is of the leader. It is if that had the same ones when
// it was read, and no other thread has taken its place since by an exec, with its own. It is also
// if the leader was alone, and had others than before: then it was not about to make a thread,
// whose call this could be, and which nothing tells yet.
func (s *Source) isLeaders(e *event) bool {
	if e.cred == e.leader && !slices.ContainsFunc(s.queue.events, func(o *event) bool {
		return o.executes(e.pid) && o.stamp <= e.read
	}) {
		return true
	}
	p := s.lives[e.pid]
	return s.alone(e) && p.start == e.ev.Task.Start && !p.mayHave(e.leader) && s.noted >= e.read+inFlight && !s.lostSince(e)
}

// alone reports whether the process of a call is known to have had one thread. What another one
// does can be told before the call that has made it, which ends later.
func (s *Source) alone(e *event) bool {
	return s.lives[e.pid].single && !slices.ContainsFunc(s.queue.events, func(o *event) bool {
		return o.known && o.pid == e.pid && o.makesThread() && o.stamp <= e.stamp
	})
}
