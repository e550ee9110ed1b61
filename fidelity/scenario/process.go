package scenario

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// process is a process that the director starts, or a child or thread of one.
type process struct {
	*bare.Script
	d             *director
	opts          bare.Options
	fresh         engine.Fields // fields that it does not inherit
	mayFail       bool          // a failed call skips the scenario
	ignoresErrors bool          // failed calls are ignored
	killable      bool          // its parent may kill it
	broken        truth.State   // state after the exec of a broken program, its last call
	code          int           // expected exit code
	// byThread is set if the process is to end by exit(2) of its only or last thread.
	byThread bool
	after    truth.State // state that /proc does not show, once the program of hold runs

	steps  []step
	others []*process // children and threads in the order of their start
	group  *process   // the process of a thread; itself for a process
	parent int        // parent at birth
	thread bool       // it is a thread
	flags  uintptr    // flags of clone(2), for a child
	last   int        // index of the last stamp, -1 for none

	run       *bare.Process
	number    int       // index of the script in run
	pid       int       // for a thread, its tid
	parentTID int       // the thread that started it or, with CLONE_PARENT, its parent
	self      bare.Word // where the kernel writes its id at start, in its own pid namespace
	childID   bare.Word // the same in its parent's pid namespace
	released  uint64    // when it was allowed to end
	// A thread that executed took the leader's pid between these times.
	leaving, left uint64
	gate          *gate // the gate at which it waits, if not the common one
}

// step is an event in a script. It happened if its call succeeded.
type step struct {
	call   int  // index of the call; a stamp follows unless noNext
	before int  // index of the stamp before the call
	noNext bool // no stamp follows the call
	other  int  // 1 + index in others, of the started process
	leads  bool // the call makes the process a group leader
	record truth.Record
	probes []probe
	was    []probe // the same probes before the call; equal results mean no change
	// ns are the namespaces that the event may report, nsLater those that a second event of the
	// same call may report.
	ns, nsLater []nsRead
}

// probe is a call that reads fields of the process after a step.
type probe struct {
	fields engine.Fields
	call   int
	read   func(p *process, call, result int) truth.State // used if the call succeeded
}

func (d *director) script() *process { return &process{Script: new(bare.Script), d: d, last: -1} }

// light returns a script that shares the director's memory until its exec, as with vfork(2), and so
// starts much faster. It must not start processes, change its ids or dump core.
func (d *director) light() *process {
	p := d.script()
	p.opts.Share = true
	return p
}

// stamp appends a reading of the clock.
func (p *process) stamp() int {
	p.last = p.Len()
	p.Stamp()
	return p.last
}

// call appends a system call without an event.
func (p *process) call(name string, number uintptr, args ...any) *process {
	p.Call(name, number, args...)
	return p
}

// event appends a system call with an event.
func (p *process) event(r truth.Record, name string, number uintptr, args ...any) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, record: r})
	p.Call(name, number, args...)
	p.stamp()
	return p
}

// setState appends a record of the state that the preceding calls have set.
func (p *process) setState(s truth.State) *process {
	return p.now(truth.Record{Op: truth.Now, State: s})
}

// unsettled records that the values of fields are not recorded from here on.
func (p *process) unsettled(fields engine.Fields) *process {
	return p.now(truth.Record{Op: truth.Now, Open: fields})
}

// mayCut records that fields, from here on, are so long that reports may truncate them.
func (p *process) mayCut(fields engine.Fields) *process {
	return p.now(truth.Record{Op: truth.Now, MayCut: fields})
}

func (p *process) now(r truth.Record) *process {
	at := p.stamp()
	p.steps = append(p.steps, step{call: at, before: at, noNext: true, record: r})
	return p
}

// image appends the execution of a program whose state is recorded later: this program reports its
// own state, and the director observes a waiting program.
func (p *process) image(path string, argv []string, env []string) *process {
	p.stamp()
	p.Exec(path, argv, env)
	return p
}

// program appends the execution of a program that does not report. s is the state after it.
func (p *process) program(path string, argv []string, s truth.State, env ...string) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, noNext: true, record: truth.Record{Op: truth.Exec, State: s}})
	p.Exec(path, argv, env)
	return p
}

// enterDir appends chdir(2) and records the new directory.
func (p *process) enterDir(dir string) *process {
	var in truth.State
	in.Set(engine.FieldCwd, dir)
	return p.call("chdir", unix.SYS_CHDIR, dir).setState(in)
}

// child appends the start of a process.
func (p *process) child(flags uintptr, c *process) *process {
	c.flags = flags
	return p.startOther(c, truth.Fork, func() { p.Child(flags, c.Script) })
}

// startThread appends the start of a thread.
func (p *process) startThread(t *process) *process {
	t.thread = true
	return p.startOther(t, truth.ThreadStart, func() { p.Thread(t.Script) })
}

func (p *process) startOther(o *process, op truth.Op, clone func()) *process {
	before := p.stamp()
	p.others = append(p.others, o)
	p.steps = append(p.steps, step{call: p.Len(), before: before, other: len(p.others), record: truth.Record{Op: op}})
	clone()
	p.stamp()
	return p
}

// awaitChild appends a wait for the end of a child, which remains a zombie.
func (p *process) awaitChild() *process {
	return p.call("waitid", unix.SYS_WAITID, 0, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
}

// end appends an exit_group(2) with the given code.
func (p *process) end(code int) *process {
	p.stamp()
	p.Exit(code)
	return p
}

// endThread appends an exit(2) of the thread with the given code.
func (p *process) endThread(code int) *process {
	p.stamp()
	p.ExitThread(code)
	p.byThread = true
	return p
}

// exitRecord returns the record of the end of p.
func (p *process) exitRecord(e ended) truth.Record {
	return truth.Record{Op: truth.Exit, PID: p.pid, Earliest: p.lastStamp(), Latest: e.at, Status: int32(e.status), ByThread: p.byThread, Used: e.usage()}
}

// threadEnd returns the record of the end of a thread of process pid, which has ended. A thread
// that executes a program takes the leader's pid, so its own tid becomes free.
func (p *process) threadEnd(pid int, end uint64) truth.Record {
	return truth.Record{Op: truth.ThreadEnd, PID: pid, TID: p.pid, Earliest: cmp.Or(p.leaving, p.lastStamp()), Latest: cmp.Or(p.left, end)}
}

// reached returns the latest stamp that the process or thread itself has read.
func (p *process) reached() (t uint64) {
	for i := p.last; i >= 0 && t == 0; i-- {
		t, _ = p.run.Stamp(p.number, i)
	}
	return t
}

// lastStamp returns the earliest time of the end.
func (p *process) lastStamp() (t uint64) {
	t = p.reached()
	if p.left != 0 {
		return t
	}
	for _, o := range p.others {
		if o.thread {
			t = max(t, o.lastStamp())
		}
	}
	return max(t, p.released)
}

// readIDs reads the ids of the processes and threads that p has started so far.
func (p *process) readIDs() {
	for _, o := range p.others {
		o.run, o.pid = p.run, p.run.Thread(o.number)
		if o.pid == 0 && o.childID != (bare.Word{}) {
			// The call that starts the child has not returned: vfork(2) waits for the
			// child, or a signal has interrupted clone(2).
			by := o
			if o.childID.Script == p.Script {
				by = p
			}
			if id := int(p.run.Arg(by.number, o.childID.Call, o.childID.Index)); id != noPID {
				o.pid = id
			}
		}
		o.group, o.parent, o.parentTID = o, p.group.pid, p.pid
		switch {
		case o.thread:
			o.group = p.group
		case o.flags&unix.CLONE_PARENT != 0:
			o.parent, o.parentTID = p.group.parent, p.parentTID
		}
		o.readIDs()
	}
}

// assignNumbers numbers p and its children and threads like [bare.Process.Thread].
func (p *process) assignNumbers(next *int) {
	p.number = *next
	*next++
	for _, o := range p.others {
		o.assignNumbers(next)
	}
}

// addProbes adds the results of the probes after a step to a record.
func (p *process) addProbes(r *truth.Record, list []probe) {
	for _, say := range list {
		if r.Op != truth.Now { // which lists its open fields itself
			r.Open |= say.fields
		}
		if result, ok := p.run.Result(p.number, say.call); ok && result >= 0 {
			s := say.read(p, say.call, result)
			r.State.Overlay(&s)
		}
	}
}

// setByExec are the fields that an exec can change.
const setByExec = engine.FieldsImage&^(1<<engine.FieldEnviron) | 1<<engine.FieldComm | 1<<engine.FieldCaps

// ofThreads are the fields that each thread has of its own. After a thread's exec the process has
// that thread's values.
const ofThreads = engine.FieldsThread &^ (1<<engine.FieldComm | 1<<engine.FieldExit)

// recordSteps records the steps of p until its end. Of a thread it records the exec and all later
// steps, in which the thread is the process.
func (d *director) recordSteps(p *process, end uint64) {
	process := !p.thread
	var own truth.State // fields that this thread has changed only for itself
	for _, s := range p.steps {
		before, ok := p.run.Stamp(p.number, s.before)
		result, returned := p.run.Result(p.number, s.call)
		if !ok || returned && result < 0 && s.record.Op != truth.ExecFailed {
			continue // the process ended before this step, or the call failed
		}
		after, r := end, s.record
		done := s.noNext
		if !s.noNext {
			if t, ok := p.run.Stamp(p.number, s.call+1); ok {
				after, done = t, true
				r.Own = s.nsLater == nil // else the same call causes another event
			}
		}
		p.addProbes(&r, s.probes)
		if was := (truth.Record{}); s.was != nil {
			if p.addProbes(&was, s.was); was.State == r.State {
				r.Optional, r.Unchanged = true, true
			}
		}
		if r.Op == truth.NS && !p.addNS(&r, s.ns, s.nsLater) {
			continue
		}
		ofThread := !process
		if ofThread && r.Op != truth.Exec {
			own.Overlay(&r.State)
		}
		if r.Op == truth.Exec && ofThread && (done || p.left != 0 || !returned && p.ignoresErrors) {
			process = true
			switch {
			case p.left != 0:
			case done:
				p.leaving, p.left = before, after
			default: // the process was killed during or right after the step
				r.Open |= ofThreads
			}
		}
		if p.thread && r.Op == truth.Exec {
			before = max(before, p.group.reached()) // the leader has ended by then
			r.ID = engine.ChangedUID | engine.ChangedGID
			if ofThread {
				d.recordShown(p, own, before)
			}
		}
		for _, t := range p.others {
			if t.left != 0 {
				after = min(after, t.left-1) // the same
			}
		}
		r.PID, r.Earliest, r.Latest = p.group.pid, before, after
		if r.Op == truth.Now || r.Op == truth.Shown {
			r.Latest, r.Own = before, true
		}
		if r.ID == engine.ChangedSID {
			r.State.Set(engine.FieldSID, itoa(p.group.pid))
			r.State.Set(engine.FieldTTY, "0:0")
		}
		if s.leads {
			r.State.Set(engine.FieldPGID, itoa(p.group.pid))
		}
		if !done && !returned && p.ignoresErrors {
			// The process ended during this call; whether it took effect is unknown.
			r.Optional = true
			r.Open |= r.State.Known
			r.State = truth.State{}
			if r.Op == truth.Exec {
				r.ID = engine.ChangedUID | engine.ChangedGID // may be reported
				r.Open |= engine.FieldParentSignal.Set()
			}
		}
		switch {
		case r.Op == truth.ThreadStart:
			c := p.others[s.other-1]
			if r.TID = c.pid; r.TID == 0 {
				continue
			}
			// A thread's exec can end the leader before the leader reads the time.
			if c.left != 0 {
				r.Latest = min(r.Latest, c.left)
			}
			d.record(r)
		case r.Op == truth.Fork:
			c := p.others[s.other-1]
			if r.PID = c.pid; r.PID == 0 {
				continue
			}
			if first, ok := p.run.Stamp(c.number, 0); ok && c.ignoresErrors {
				r.Latest = min(r.Latest, first)
			}
			r.Own = false // the times are the parent's
			r.Creator, r.Parent, r.Fresh = p.group.pid, c.parent, c.fresh
			r.State = born(c.parentTID, unix.Signal(cmp.Or(c.flags&0xff, uintptr(unix.SIGCHLD))))
			if c.ignoresErrors && c.flags&unix.CLONE_PARENT != 0 {
				// The parent may have ended, and the signal is the creator's.
				r.State.Forget(engine.SetOf(engine.FieldBirthParentTID, engine.FieldParentSignal))
			}
			for _, t := range p.others {
				if t.left != 0 && t.leaving <= r.Latest {
					// A thread's exec ended p: the child was created before it.
					r.Fresh |= setByExec
				}
			}
			r.Optional = false // the child exists
			d.record(r)
		case process, r.Op == truth.Exec, r.Op == truth.ExecFailed: // may be a thread's
			d.record(r)
		}
	}
	if !process && p.left != 0 { // held.await has recorded its exec
		d.recordShown(p, own, max(p.reached(), p.group.reached()))
	}
}

// recordShown records that thread p becomes the process at its exec. The process first has the
// thread's own fields; then the exec changes them.
func (d *director) recordShown(p *process, own truth.State, at uint64) {
	own.Forget(^ofThreads)
	d.record(truth.Record{Op: truth.Shown, PID: p.group.pid, Latest: at, State: own})
}

// gate is a pipe on which one process waits for another.
type gate struct {
	r, w int
	d    *director
}

func (d *director) gate() *gate {
	var fds [2]int
	d.must(unix.Pipe2(fds[:], unix.O_CLOEXEC))
	d.fds = append(d.fds, fds[:]...)
	return &gate{fds[0], fds[1], d}
}

// open lets one waiting process continue.
func (g *gate) open() {
	_, err := unix.Write(g.w, []byte{1})
	g.d.must(err)
}

// release lets one waiting process continue. The processes in ending are recorded to end later than
// now.
func (g *gate) release(ending ...*process) {
	for _, p := range ending {
		p.released = truth.Clock()
	}
	g.open()
}

// pass lets the director wait until a process opens the gate. It fails the scenario if a system
// call of p failed.
func (g *gate) pass(p *process) {
	fds := []unix.PollFd{{Fd: int32(g.r), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 100)
		if err != nil && err != unix.EINTR {
			g.d.fail(fmt.Errorf("poll a pipe: %w", err))
		}
		// A script continues after a failed call, so it may open the gate despite the
		// failure.
		g.d.check(p)
		if n == 1 {
			_, err := unix.Read(g.r, make([]byte, 1))
			g.d.must(err)
			return
		}
	}
}

// held is a process that runs a waiting program.
type held struct {
	*process
	ready, goOn *gate
	execer      *process    // calls execve(2): the process, or a child or thread of it
	inside      truth.State // paths as the process itself sees them
	path        string      // path argument of execve(2), "" if not recorded
}

// prepare gives p the descriptors for a program of [director.waiter].
func (d *director) prepare(p *process) *held {
	h := &held{process: p, ready: d.gate(), goOn: d.gate(), execer: p}
	p.call("dup3", unix.SYS_DUP3, h.goOn.r, 0, 0).call("dup3", unix.SYS_DUP3, h.ready.w, 1, 0)
	return h
}

// hold lets p execute a waiting program, and records its state.
func (d *director) hold(p *process, path string, argv ...string) *held {
	h := d.prepare(p)
	h.path = path
	p.image(path, argv, nil)
	d.start(p)
	h.await()
	return h
}

// holdChild starts p and lets its child execute a waiting program, and records the child's state.
func (d *director) holdChild(p, child *process, name string) *held {
	return d.holdCloned(p, child, 0, name)
}

// holdCloned is holdChild with flags of clone(2).
func (d *director) holdCloned(p, child *process, flags uintptr, name string) *held {
	h := d.prepare(child)
	child.image(d.waiter(6), []string{name}, nil)
	h.process = d.start(p.child(flags, child).awaitChild().end(0))
	h.await()
	return h
}

// holdThread starts p and lets its thread t execute a waiting program, and records the state.
func (d *director) holdThread(p, t *process, path string, argv ...string) {
	h := d.prepare(t)
	t.image(path, argv, nil)
	p.startThread(t).Stop()
	h.process = d.start(p)
	h.await()
	h.release()
}

// holdTwice is hold for a process that is also observed before its exec, after a call of ready.
func (d *director) holdTwice(p *process, name string, ready func()) {
	h, first := d.prepare(p), d.gate()
	p.Notify(first.w).WaitFor(h.goOn.r)
	p.image(d.waiter(0), []string{name}, nil)
	d.start(p)
	first.pass(p)
	ready()
	d.observe(p.pid)
	h.goOn.open()
	h.await()
	h.release()
}

// await waits until the program runs, and records its state.
func (h *held) await() {
	h.ready.pass(h.process)
	pid := h.pid
	if h.execer != h.process && !h.execer.thread {
		h.execer.pid = h.started(h.execer.number)
		pid = h.execer.pid
	}
	// The last stamp was read right before the execve(2).
	execed, ok := h.run.Stamp(h.execer.number, h.execer.last)
	h.d.want(ok, "process %d did not reach its exec", h.pid)
	now := truth.Clock()
	if h.execer.thread {
		h.execer.left = now
	}
	is := h.d.readState(pid)
	is.Overlay(&h.after)
	if h.path != "" {
		is.Set(engine.FieldExecPath, h.path)
	}
	h.d.record(truth.Record{Op: truth.Exec, PID: pid, Earliest: execed, Latest: now, State: is, Inside: h.inside})
	h.d.awaitReaders(pid)
}

// started returns the id of the i-th child or thread of p, counted from 1. The child may run before
// clone returns in p.
func (p *process) started(i int) (id int) {
	await(func() bool {
		id = p.run.Thread(i)
		return id != 0
	})
	return id
}

// await polls until done returns true.
func await(done func() bool) {
	for !done() {
		unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
	}
}

// release lets the program end.
func (h *held) release() unix.WaitStatus {
	h.goOn.release(h.process, h.execer)
	return h.d.finish(h.process)
}
