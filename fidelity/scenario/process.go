package scenario

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// process is a process that the director starts, or a child or thread of one.
type process struct {
	*bare.Script
	d       *director
	opts    bare.Options
	fresh   engine.Fields // fields that it does not inherit
	mayFail bool          // a failed call skips the scenario: it can't run here

	steps  []step
	others []*process // children and threads in the order of their start
	thread bool       // it is a thread
	flags  uintptr    // flags of clone(2), for a child
	last   int        // index of the last stamp, -1 for none

	run      *bare.Process
	number   int    // index of the script in run
	pid      int    // for a thread, its tid
	released uint64 // when it was allowed to end
	gate     *gate  // where it waits, if others wait elsewhere
}

// step is an event in a script. It happened if its call succeeded.
type step struct {
	call   int  // index of the call; the next call is a stamp unless noNext
	before int  // index of the stamp before the call
	noNext bool // no stamp follows the call
	other  int  // 1 + index in others
	leads  bool // the call makes the process a session and group leader without a terminal
	record truth.Record
}

func (d *director) script() *process { return &process{Script: new(bare.Script), d: d, last: -1} }

// light returns a script that shares the director's memory until it executes a program, as with
// vfork(2), and so starts much faster. It must not start others, change its ids or dump core.
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

// call appends a system call that makes no event.
func (p *process) call(name string, number uintptr, args ...any) *process {
	p.Call(name, number, args...)
	return p
}

// event appends a system call that makes an event.
func (p *process) event(r truth.Record, name string, number uintptr, args ...any) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, record: r})
	p.Call(name, number, args...)
	p.stamp()
	return p
}

// look appends a record of state that the calls before it have set.
func (p *process) look(s truth.State) *process {
	return p.now(truth.Record{Op: truth.Now, State: s})
}

// unsettled records that the following calls change fields to values that are not recorded.
func (p *process) unsettled(fields engine.Fields) *process {
	return p.now(truth.Record{Op: truth.Now, Open: fields})
}

// mayCut records that fields are too long, from here on, to be always reported whole.
func (p *process) mayCut(fields engine.Fields) *process {
	return p.now(truth.Record{Op: truth.Now, MayCut: fields})
}

func (p *process) now(r truth.Record) *process {
	at := p.stamp()
	p.steps = append(p.steps, step{call: at, before: at, noNext: true, record: r})
	return p
}

// image appends the execution of a program whose state is recorded later: this program in a role
// reports itself, and a program that waits is observed.
func (p *process) image(path string, argv []string, env []string) *process {
	p.stamp()
	p.Exec(path, argv, env)
	return p
}

// program appends the execution of a program that does not report. s is the state after it.
func (p *process) program(path string, argv []string, s truth.State) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, noNext: true, record: truth.Record{Op: truth.Exec, State: s}})
	p.Exec(path, argv, nil)
	return p
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

// end appends the end of the process.
func (p *process) end(code int) *process {
	p.stamp()
	p.Exit(code)
	return p
}

// endThread appends the end of the thread.
func (p *process) endThread(code int) *process {
	p.stamp()
	p.ExitThread(code)
	return p
}

// exit returns the record of the end.
func (p *process) exit(e ended) truth.Record {
	return truth.Record{Op: truth.Exit, PID: p.pid, Earliest: p.lastStamp(), Latest: e.at, Status: int32(e.status)}
}

// leave returns the record of the end of a thread of process pid, which has ended.
func (p *process) leave(pid int, end uint64) truth.Record {
	return truth.Record{Op: truth.ThreadEnd, PID: pid, TID: p.pid, Earliest: p.lastStamp(), Latest: end}
}

// lastStamp returns the earliest time of the end.
func (p *process) lastStamp() (t uint64) {
	if p.last >= 0 {
		t, _ = p.run.Stamp(p.number, p.last)
	}
	return max(t, p.released)
}

// tell records the steps that p made until its end.
func (d *director) tell(p *process, end uint64) {
	for _, s := range p.steps {
		before, ok := p.run.Stamp(p.number, s.before)
		if !ok {
			continue // the process ended before this step
		}
		after, r := end, s.record
		if !s.noNext {
			if t, ok := p.run.Stamp(p.number, s.call+1); ok {
				after = t
				r.Own = true
			}
		}
		r.PID, r.Earliest, r.Latest = p.pid, before, after
		if r.Op == truth.Now {
			r.Latest, r.Own = before, true
		}
		if s.leads {
			id := itoa(p.pid)
			r.State.Set(engine.FieldSID, id)
			r.State.Set(engine.FieldPGID, id)
			r.State.Set(engine.FieldTTY, "0:0")
		}
		switch {
		case r.Op == truth.ThreadStart:
			if r.TID = p.run.Thread(s.other); r.TID == 0 {
				continue
			}
		case r.Op == truth.Fork:
			c := p.others[s.other-1]
			r.Own = false // the times are the parent's
			r.PID, r.Creator, r.Parent, r.Fresh = p.run.Thread(s.other), p.pid, p.pid, c.fresh
			if c.flags&unix.CLONE_PARENT != 0 {
				r.Parent = d.pid
			}
		}
		d.record(r)
	}
}
