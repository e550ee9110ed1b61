package scenario

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// director is the process that performs a scenario.
type director struct {
	proc truth.Proc
	pid  int
	self string // path of the program
	dir  string // an empty directory that goes with the scenario
}

// stop ends a scenario early.
type stop struct {
	op     truth.Op
	reason string
}

// direct performs a scenario and does not return.
func direct(name string) {
	d := &director{proc: truth.Proc{FD: procFD}}
	os.Exit(d.perform(name))
}

func (d *director) perform(name string) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			write(truth.Record{Op: r.op, Reason: r.reason})
			if r.op == truth.Fail {
				code = 1
			}
		default:
			panic(r)
		}
	}()
	s := find(name)
	if s == nil {
		d.fail(fmt.Errorf("no scenario %q", name))
	}
	d.setUp()
	defer os.RemoveAll(d.dir)
	d.report()
	s.run(d)
	return 0
}

// setUp takes the descriptors from where os/exec put them.
func (d *director) setUp() {
	for i, fd := range []int{truthFD, goFD, readyFD} {
		// No process of the scenario is to have those of the gate by accident.
		flags := 0
		if fd != truthFD {
			flags = unix.O_CLOEXEC
		}
		d.must(unix.Dup3(3+i, fd, flags))
		d.must(unix.Close(3 + i))
	}
	proc, err := truth.OpenProc()
	d.must(err)
	d.must(unix.Dup3(proc.FD, procFD, 0))
	d.must(proc.Close())
	d.pid = os.Getpid()
	d.self, err = os.Executable()
	d.must(err)
	d.dir, err = os.MkdirTemp("", "quark-fidelity-")
	d.must(err)
	d.must(os.Chmod(d.dir, 0o755))
	// Those whose parents have ended become our children.
	d.must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

func (d *director) report() { d.must(report(truth.Exec, false)) }

func (d *director) record(r truth.Record) { d.must(write(r)) }

func (d *director) fail(err error) { panic(stop{truth.Fail, err.Error()}) }

func (d *director) skip(format string, args ...any) {
	panic(stop{truth.Skip, fmt.Sprintf(format, args...)})
}

func (d *director) must(err error) {
	if err != nil {
		d.fail(err)
	}
}

// process is one that the director starts, or a child of such a one.
type process struct {
	*bare.Script
	d        *director
	steps    []step
	children []*process // in the order of their start
	flags    uintptr    // of clone, for a child
	fresh    engine.Fields
	last     int // index of the youngest stamp, -1 for none

	run     *bare.Process
	thread  int // the script's number in run
	pid     int
	born    uint64 // after its fork
	mayFail bool   // a call that fails means that the scenario can't run here
}

// step is an event in a script: it happened if the call succeeded.
type step struct {
	call   int
	before int // index of the stamp before it; the one after it follows it
	noNext bool
	child  int  // 1 + index in children
	leads  bool // it makes the process the leader of a session and a group without a terminal
	record truth.Record
}

func (d *director) script() *process { return &process{Script: new(bare.Script), d: d, last: -1} }

// stamp appends a reading of the clock.
func (p *process) stamp() int {
	p.last = p.Len()
	p.Stamp()
	return p.last
}

// call appends a system call that is no event.
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

// look appends a record of how things are since the calls before it.
func (p *process) look(s truth.State) *process {
	at := p.stamp()
	p.steps = append(p.steps, step{call: at, before: at, noNext: true, record: truth.Record{Op: truth.Now, State: s}})
	return p
}

// unsettled says that the calls which follow take fields through values of which
// the scenario does not tell.
func (p *process) unsettled(fields engine.Fields) *process {
	at := p.stamp()
	p.steps = append(p.steps, step{call: at, before: at, noNext: true, record: truth.Record{Op: truth.Now, Open: fields}})
	return p
}

// image appends the execution of this program in a role; it reports for itself.
func (p *process) image(path string, argv []string, env []string) *process {
	p.stamp()
	p.Exec(path, argv, env)
	return p
}

// program appends the execution of a program that does not report, so that what it
// has become is told here.
func (p *process) program(path string, argv []string, s truth.State) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, noNext: true, record: truth.Record{Op: truth.Exec, State: s}})
	p.Exec(path, argv, nil)
	return p
}

// child appends the start of a process.
func (p *process) child(flags uintptr, c *process) *process {
	before := p.stamp()
	p.children = append(p.children, c)
	c.flags = flags
	p.steps = append(p.steps, step{call: p.Len(), before: before, child: len(p.children), record: truth.Record{Op: truth.Fork}})
	p.Child(flags, c.Script)
	p.stamp()
	return p
}

// awaitChild appends a wait for the end of a child, which stays to be reaped.
func (p *process) awaitChild() *process {
	return p.call("waitid", unix.SYS_WAITID, 0, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
}

// end appends the end of the process.
func (p *process) end(code int) *process {
	p.stamp()
	p.Exit(code)
	return p
}

// start starts p.
func (d *director) start(p *process, opts bare.Options) *process {
	if err := d.tryStart(p, opts); err != nil {
		if p.mayFail || errors.Is(err, unix.ENOSYS) {
			d.skip("start a process: %v", err)
		}
		d.fail(fmt.Errorf("start a process: %w", err))
	}
	return p
}

func (d *director) tryStart(p *process, opts bare.Options) error {
	before := truth.Clock()
	run, err := bare.Start(p.Script, opts)
	if err != nil {
		return err
	}
	p.run, p.pid, p.born = run, run.PID, truth.Clock()
	d.record(truth.Record{
		Op: truth.Fork, PID: p.pid, Earliest: before, Latest: p.born, Parent: d.pid, Creator: d.pid, Fresh: p.fresh,
	})
	return nil
}

// finish waits for the ends of p and its children, and records what they did.
func (d *director) finish(p *process) unix.WaitStatus {
	return d.finishReaped(p, d.reapOnly(p))
}

// ended is the end of a process that has been waited for.
type ended struct {
	status unix.WaitStatus
	at     uint64
}

func (d *director) reapOnly(p *process) ended { return ended{d.reap(p.pid), truth.Clock()} }

// finishReaped is finish of a process that has been waited for.
func (d *director) finishReaped(p *process, e ended) unix.WaitStatus {
	d.check(p)
	d.tell(p, e.at)
	d.record(p.exit(e.status, e.at))
	for i, c := range p.children {
		c.run, c.thread, c.pid = p.run, i+1, p.run.Thread(i+1)
		if c.pid == 0 {
			d.fail(fmt.Errorf("child %d of process %d was not started", i+1, p.pid))
		}
		e := d.reapOnly(c)
		d.tell(c, e.at)
		d.record(c.exit(e.status, e.at))
	}
	p.run.Free()
	return e.status
}

func (d *director) reap(pid int) (status unix.WaitStatus) {
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if err == nil {
			return status
		}
		if !errors.Is(err, unix.EINTR) {
			d.fail(fmt.Errorf("wait for process %d: %w", pid, err))
		}
	}
}

// check ends the scenario if a call of p has failed.
func (d *director) check(p *process) {
	err := p.run.Check()
	switch {
	case err == nil:
	case p.mayFail:
		d.skip("%v", err)
	default:
		d.fail(err)
	}
}

// exit is the record of the end; nothing that p has stamped came after it.
func (p *process) exit(status unix.WaitStatus, now uint64) truth.Record {
	r := truth.Record{Op: truth.Exit, PID: p.pid, Latest: now, Status: int32(status)}
	if p.last >= 0 {
		r.Earliest, _ = p.run.Stamp(p.thread, p.last)
	}
	return r
}

// tell records the steps that p took.
func (d *director) tell(p *process, end uint64) {
	for _, s := range p.steps {
		before, ok := p.run.Stamp(p.thread, s.before)
		if !ok {
			continue // it ended before
		}
		after, r := end, s.record
		if !s.noNext {
			if t, ok := p.run.Stamp(p.thread, s.call+1); ok {
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
		if s.child > 0 {
			c := p.children[s.child-1]
			r.Own = false // the parent's, not the child's
			r.PID, r.Creator, r.Parent, r.Fresh = p.run.Thread(s.child), p.pid, p.pid, c.fresh
			if c.flags&unix.CLONE_PARENT != 0 {
				r.Parent = d.pid
			}
		}
		d.record(r)
	}
}

// do starts p and waits for its end.
func (d *director) do(p *process) unix.WaitStatus { return d.finish(d.start(p, bare.Options{})) }

// observe records how a process, which stands still, looks from outside.
func (d *director) observe(pid int) {
	got, s, err := d.proc.Read(strconv.Itoa(pid))
	d.must(err)
	if got != pid {
		d.fail(fmt.Errorf("/proc/%d is of process %d", pid, got))
	}
	s.Untell(engine.FieldStart.Set())
	d.record(truth.Record{Op: truth.Now, PID: pid, Latest: truth.Clock(), State: s})
}

func itoa(n int) string { return strconv.Itoa(n) }

// want fails the scenario unless it did what it is there for.
func (d *director) want(ok bool, format string, args ...any) {
	if !ok {
		d.fail(fmt.Errorf("the scenario did not do its work: "+format, args...))
	}
}
