package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// director is the state of the process that runs scenarios.
type director struct {
	proc truth.Proc
	pid  int
	self string // path of this program

	// State of the scenario:
	dir string // an empty directory
	fds []int  // to be closed
	// scripted counts the processes of the scenario's scripts. File names contain the count, as
	// a program cannot be overwritten while a reader of /proc has it open.
	scripted int

	waited truth.IO // I/O of the children that this process has waited for
}

// stop is the panic value that ends a scenario early.
type stop struct {
	op     truth.Op
	reason string
}

// runDirector runs scenarios one after the other and does not return.
func runDirector(names []string) {
	d := &director{proc: truth.Proc{FD: procFD}}
	code := d.guard(func() {
		d.setUp()
		d.must(report(truth.Exec))
	})
	for i, name := range names {
		if code != 0 {
			break
		}
		if i > 0 {
			write(truth.Record{Op: truth.Next})
		}
		code = d.guard(func() { d.runScenario(name) })
	}
	os.Exit(code)
}

func (d *director) runScenario(name string) {
	s, ok := Find(name)
	if !ok {
		d.fail(fmt.Errorf("no scenario %q", name))
	}
	var err error
	d.dir, err = os.MkdirTemp("", "quark-fidelity-")
	d.must(err)
	defer os.RemoveAll(d.dir)
	d.must(os.Chmod(d.dir, 0o755))
	defer func() {
		d.endAll()
		for _, fd := range d.fds {
			unix.Close(fd)
		}
		d.fds, d.scripted = nil, 0
	}()
	if s.run == nil {
		d.ownScript(name)
		return
	}
	s.run(d)
}

// guard calls f and returns the director's exit code. If f stops the scenario early, guard records
// the reason.
func (d *director) guard(f func()) (code int) {
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
	f()
	return 0
}

// setUp moves the descriptors from os/exec, which begin at 3, to their numbers, opens /proc, and
// makes this process a subreaper.
func (d *director) setUp() {
	// Executed programs inherit only truthFD and procFD.
	d.must(takeFDs(3, unix.O_CLOEXEC, goFD))
	d.must(takeFDs(4, 0, truthFD))
	proc, err := truth.OpenProc()
	d.must(err)
	d.must(unix.Dup3(proc.FD, procFD, 0))
	d.must(proc.Close())
	d.pid = os.Getpid()
	d.self, err = os.Executable()
	d.must(err)
	// As a subreaper this process adopts orphans and can wait for them.
	d.must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	d.must(restoreDefault(unix.SIGHUP))
	d.must(restoreDefault(unix.SIGINT))
}

// restoreDefault restores the default action of a signal for this process and its children.
// Processes inherit ignored signals, for example from nohup(1).
func restoreDefault(sig unix.Signal) error {
	var byDefault [4]uint64 // the kernel's struct sigaction: handler, flags, restorer, mask
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	if errno != 0 {
		return fmt.Errorf("restore the default action of %v: %w", sig, errno)
	}
	return nil
}

// endAll kills and reaps the processes that the scenario left running, for example if it was
// skipped.
func (d *director) endAll() {
	left, _ := children.Of(d.pid)
	for _, pid := range left {
		unix.Kill(pid, unix.SIGKILL)
		children.Wait(pid)
	}
}

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

// keep returns an opened descriptor, which the end of the scenario closes.
func (d *director) keep(fd int, err error) int {
	d.must(err)
	d.fds = append(d.fds, fd)
	return fd
}

// want fails the scenario unless ok.
func (d *director) want(ok bool, format string, args ...any) {
	if !ok {
		d.fail(fmt.Errorf("scenario failed:  "+format, args...))
	}
}

// wantCode fails the scenario if a process did not exit with the code.
func (d *director) wantCode(status unix.WaitStatus, code int) {
	d.want(status.ExitStatus() == code, "wait status %#x", status)
}

func itoa(n int) string { return strconv.Itoa(n) }

// mkdir creates a directory below the scenario's directory, with all parents.
func (d *director) mkdir(names ...string) string {
	dir := filepath.Join(append([]string{d.dir}, names...)...)
	d.must(os.MkdirAll(dir, 0o755))
	return dir
}

// waiter returns the path of a program that writes a byte to its standard output, waits for a byte
// on its standard input, and exits with the code. It is small enough to start in a few milliseconds
// on an emulated machine.
func (d *director) waiter(code int) string {
	path := filepath.Join(d.dir, fmt.Sprintf("waiter%d", code))
	if _, err := os.Stat(path); err != nil {
		d.writeWaiter(path, code)
	}
	return path
}

func (d *director) writeWaiter(path string, code int) {
	d.must(tinyelf.WriteWaiter(path, uint8(code)))
}

// start starts p. It skips the scenario if p may fail or the kernel lacks a feature.
func (d *director) start(p *process) *process {
	if err := d.tryStart(p); err != nil {
		if p.mayFail || errors.Is(err, errors.ErrUnsupported) {
			d.skip("start a process: %v", err)
		}
		d.fail(fmt.Errorf("start a process: %w", err))
	}
	return p
}

// tryStart starts p and records the fork.
func (d *director) tryStart(p *process) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p.parentTID = unix.Gettid()
	before := truth.Clock()
	run, err := bare.Start(p.Script, p.opts)
	if err != nil {
		return err
	}
	p.run, p.pid, p.group, p.parent = run, run.PID, p, d.pid
	p.assignNumbers(new(int))
	p.readIDs()
	d.record(truth.Record{
		Op: truth.Fork, PID: p.pid, Earliest: before, Latest: truth.Clock(), Parent: d.pid, Creator: d.pid, Fresh: p.fresh,
		State: born(p.parentTID, unix.SIGCHLD),
	})
	return nil
}

// born returns the fields of a new process that clone determines.
func born(parentTID int, exitSignal unix.Signal) (s truth.State) {
	s.Set(engine.FieldBirthParentTID, itoa(parentTID))
	s.Set(engine.FieldParentSignal, itoa(int(exitSignal)))
	return s
}

// do starts p and waits for its end.
func (d *director) do(p *process) unix.WaitStatus { return d.finish(d.start(p)) }

type ended struct {
	status unix.WaitStatus
	used   truth.Used
	at     uint64 // latest possible time of the end, CLOCK_MONOTONIC ns
}

// usage returns the resource usage of the process, nil if unknown.
func (e *ended) usage() *truth.Used {
	if e.used == (truth.Used{}) {
		return nil
	}
	return &e.used
}

// reap waits for the end of a process.
func (d *director) reap(pid int) ended {
	var e ended
	for err := error(unix.EINTR); errors.Is(err, unix.EINTR); {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	}
	e.used.ReadIO(itoa(pid))
	var ru unix.Rusage
	_, err := unix.Wait4(pid, &e.status, unix.WALL, &ru)
	if err != nil {
		d.fail(fmt.Errorf("wait for process %d: %w", pid, err))
	}
	e.used.Add(&ru)
	if e.used.IO != nil {
		d.waited.Add(e.used.IO)
	}
	e.at = truth.Clock()
	return e
}

// spawn starts this program as os/exec does, and records the fork. os/exec would first start
// another process, to probe for pidfds.
func (d *director) spawn(name string, attr *syscall.ProcAttr) (pid int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := truth.Clock()
	pid, err := syscall.ForkExec(d.self, []string{name}, attr)
	d.must(err)
	d.record(truth.Record{Op: truth.Fork, PID: pid, Earliest: before, Latest: truth.Clock(), Parent: d.pid, Creator: d.pid,
		State: born(unix.Gettid(), unix.SIGCHLD)})
	return pid
}

// reapSpawned waits for the end of a spawned process, and records it.
func (d *director) reapSpawned(pid int) unix.WaitStatus {
	e := d.reap(pid)
	d.record(truth.Record{Op: truth.Exit, PID: pid, Latest: e.at, Status: int32(e.status), Used: &e.used})
	return e.status
}

// finish waits for the ends of p and its children, and records their events.
func (d *director) finish(p *process) unix.WaitStatus {
	return d.finishReaped(p, d.reap(p.pid))
}

// finishReaped is finish for a process that has been waited for.
func (d *director) finishReaped(p *process, e ended) unix.WaitStatus {
	d.check(p)
	p.readIDs()
	d.recordHistory(p, e, func(c *process) ended {
		if c.pid == 0 {
			d.fail(fmt.Errorf("child %d of process %d was not started", c.number, p.pid))
		}
		return d.reap(c.pid)
	})
	p.run.Free()
	return e.status
}

// recordHistory records the events and the ends of a process and its children. endOf returns the
// end of a child.
func (d *director) recordHistory(p *process, e ended, endOf func(*process) ended) {
	for _, c := range p.others {
		if c.thread {
			d.recordSteps(c, e.at)
		}
	}
	d.recordSteps(p, e.at)
	for _, c := range p.others {
		switch {
		case c.pid == 0 && c.ignoresErrors:
		case !c.thread:
			d.recordHistory(c, endOf(c), endOf)
		case c.pid != 0:
			d.record(c.threadEnd(p.pid, e.at))
		default:
			// The thread executed a program before its clone returned.
			d.record(truth.Record{Op: truth.Now, PID: p.pid, Latest: e.at, OpenThreads: true})
		}
	}
	d.record(p.exitRecord(e))
}

// check fails the scenario if a call of p failed.
func (d *director) check(p *process) {
	err := p.run.Check()
	switch {
	case err == nil:
	case p.mayFail || errors.Is(err, errors.ErrUnsupported):
		d.skip("%v", err)
	default:
		d.fail(err)
	}
}

// readState reads the state of a waiting process from /proc.
func (d *director) readState(pid int) truth.State {
	got, s, err := d.proc.Read(itoa(pid))
	d.must(err)
	if got != pid {
		d.fail(fmt.Errorf("/proc/%d shows process %d", pid, got))
	}
	s.Forget(engine.FieldStart.Set()) // the fork's record has closer bounds
	return s
}

// observe records the state of a waiting process from /proc, and lets all queues be read.
func (d *director) observe(pid int) {
	d.record(truth.Record{Op: truth.Now, PID: pid, Latest: truth.Clock(), State: d.readState(pid)})
	d.awaitReaders(pid)
}

// awaitReaders waits until all events so far have been read from the queues. A process waits
// meanwhile.
func (d *director) awaitReaders(pid int) {
	d.record(truth.Record{Op: truth.Read, PID: pid, Latest: truth.Clock()})
	for b := make([]byte, 1); ; {
		if _, err := unix.Read(goFD, b); err != unix.EINTR {
			d.must(err)
			return
		}
	}
}
