package scenario

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// leaderFirst ends each leader with status 3 while another thread continues. This thread ends in a
// different way in each process.
func leaderFirst(d *director) {
	for _, last := range []func(*process){
		func(t *process) { t.end(7) },
		func(t *process) { t.endThread(3) },
		func(t *process) { t.endThread(5) },
		func(t *process) { t.endThread(0) },
		func(t *process) { t.Stop() }, // the signal below ends it
	} {
		g := d.gate()
		p, t := d.script(), d.script()
		t.WaitFor(g.r)
		last(t)
		d.start(p.startThread(t).endThread(3))
		d.awaitZombieLeader(p)
		d.awaitReaders(p.pid)
		p.released = truth.Clock()
		t.released = p.released
		g.open()
		if t.last < 0 {
			d.must(unix.Kill(p.pid, unix.SIGTERM))
		}
		d.finish(p)
	}
}

// endTogether lets all threads of a process end at the same moment by exit(2), so that the kernel
// may treat several of them as the last.
func endTogether(d *director) {
	for range scale(50, 10) {
		g := d.gate()
		p := d.script()
		for range 4 {
			t := d.script()
			t.WaitFor(g.r)
			p.startThread(t.endThread(5))
		}
		p.WaitFor(g.r)
		d.start(p.endThread(5))
		_, err := unix.Write(g.w, make([]byte, 5))
		d.must(err)
		d.finish(p)
	}
}

func (d *director) awaitZombieLeader(p *process) { await(func() bool { return d.state(p) == 'Z' }) }

// state returns the letter of the leader's state in /proc.
func (d *director) state(p *process) byte {
	b, err := os.ReadFile("/proc/" + itoa(p.pid) + "/stat")
	d.must(err)
	_, after, _ := strings.Cut(string(b), ") ")
	return after[0]
}

func exitGroupThread(d *director) {
	for i := range scale(8, 4) {
		p := d.script()
		p.startThread(d.script().end(20 + i)).Stop()
		d.wantCode(d.do(p), 20+i)
	}
}

// noCore is a value of RLIMIT_CORE that prevents every core. A core in a file would be longer. A
// limit of 0 would still permit a core that is piped to a program.
const noCore = 1

// kill returns a scenario in which a signal ends processes, without a core dump.
func kill(sig unix.Signal) func(*director) {
	return func(d *director) {
		for range scale(3, 1) {
			status, _ := d.kill(d.script(), sig, noCore)
			d.want(status.Signal() == sig && !status.CoreDump(), "wait status %#x", status)
		}
	}
}

// kill sends a signal to a process with a core limit, and returns its status and the record of a
// core dump.
func (d *director) kill(p *process, sig unix.Signal, limit uint64) (unix.WaitStatus, truth.Record) {
	ready := d.gate()
	p.call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{{Cur: limit, Max: limit}}, nil).stamp()
	p.Notify(ready.w).Stop()
	d.start(p)
	ready.pass(p)
	p.released = truth.Clock()
	d.must(unix.Kill(p.pid, sig))
	status := d.finish(p)
	return status, truth.Record{Op: truth.Core, PID: p.pid, Earliest: p.released, Latest: truth.Clock()}
}

func killCore(d *director) {
	status, core := d.kill(d.script().enterDir(d.dir), unix.SIGSEGV, 64<<20)
	if !status.CoreDump() {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		d.skip("the kernel wrote no core: kernel.core_pattern is %q", strings.TrimSpace(string(pattern)))
	}
	d.record(core)
}

// pipeCore lets the kernel pipe cores to three programs: one that reads the core, one that ends at
// once, and a missing one. Only a written core is a CORE_DUMP. The setting affects the whole
// machine.
func pipeCore(d *director) {
	if !InGuest() {
		d.skip("it changes kernel.core_pattern, which is for guests only (QUARK_INITRAMFS=1)")
	}
	const pattern = "/proc/sys/kernel/core_pattern"
	before, err := os.ReadFile(pattern)
	d.must(err)
	defer os.WriteFile(pattern, before, 0)
	reader, err := tinyelf.Reader(0)
	d.must(err)
	reads, ends, none := filepath.Join(d.dir, "reads"), filepath.Join(d.dir, "ends"), filepath.Join(d.dir, "none")
	d.must(os.WriteFile(reads, reader, 0o755))
	d.must(tinyelf.Write(ends, 0))
	for _, program := range []string{reads, ends, none} {
		d.must(os.WriteFile(pattern, []byte("|"+program), 0))
		// The limit does not apply to cores that are piped to programs.
		status, core := d.kill(d.script(), unix.SIGSEGV, 0)
		written := status.CoreDump()
		d.want(status.Signal() == unix.SIGSEGV && (program == ends || written == (program == reads)), "%s: wait status %#x", program, status)
		if written {
			d.record(core)
		}
	}
}

// daemon runs a process with a parent that ends, so that the subreaper becomes its parent.
func daemon(d *director) {
	for range scale(2, 1) {
		child := d.script()
		h := d.prepare(child)
		child.image(d.waiter(6), []string{"daemon"}, nil)
		h.process = d.start(d.script().setsid().child(0, child).end(0))
		// After the wait for the parent, the daemon has its new parent.
		parent := d.reap(h.pid)
		h.await()
		child.released = truth.Clock()
		h.goOn.open()
		d.finishReaped(h.process, parent)
	}
}

func (p *process) setsid() *process {
	p.event(truth.Record{Op: truth.IDs, ID: engine.ChangedSID}, "setsid", unix.SYS_SETSID)
	p.steps[len(p.steps)-1].leads = true
	return p
}

// threads200 starts 200 threads without a record of each.
func threads200(d *director) {
	p := d.script()
	for range scale(200, 50) {
		p.Thread(new(bare.Script).Stop())
	}
	d.start(p.end(3))
	d.record(truth.Record{Op: truth.Now, PID: p.pid, Latest: truth.Clock(), OpenThreads: true})
	d.wantCode(d.finish(p), 3)
}

// threadEnds runs threads that end one after the other while their process continues, and a thread
// that lives until the process ends.
func threadEnds(d *director) {
	for range scale(3, 1) {
		p, end := d.script(), d.gate()
		for range 2 {
			t := d.script()
			t.gate = d.gate()
			t.WaitFor(t.gate.r)
			p.startThread(t.endThread(0))
		}
		stays := d.script()
		stays.Stop()
		p.startThread(stays).WaitFor(end.r)
		d.start(p.end(6))
		for _, t := range p.others[:2] {
			t.gate.release(t)
			d.awaitReaders(p.pid)
		}
		end.release(p, stays)
		d.finish(p)
	}
}

// nsReboot ends init processes of pid namespaces by reboot(2), called by the leader or by another
// thread. SIGKILL ends the init, but its parent gets another status.
func nsReboot(d *director) {
	for _, c := range []struct {
		how    uint
		status unix.Signal
	}{
		{unix.LINUX_REBOOT_CMD_RESTART, unix.SIGHUP}, {unix.LINUX_REBOOT_CMD_HALT, unix.SIGINT}, {unix.LINUX_REBOOT_CMD_POWER_OFF, unix.SIGINT},
	} {
		for by := range 2 {
			p, thread := d.script(), d.script()
			p.opts.Flags, p.fresh, p.mayFail = unix.CLONE_NEWPID, engine.FieldPIDNS.Set(), true
			[]*process{p, thread}[by].call("reboot", unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, c.how, nil)
			if by == 1 { // the tid is another one in this namespace
				p.Thread(thread.Script)
			}
			p.Stop()
			d.start(p)
			d.record(truth.Record{Op: truth.Now, PID: p.pid, Latest: truth.Clock(), OpenThreads: true})
			status := d.finish(p)
			d.want(status.Signaled() && status.Signal() == c.status, "command %#x: wait status %#x", c.how, status)
		}
	}
}

// threadStatus ends processes with a status that differs from the status of their threads. Some
// threads end long before the process; others end at the same time, so that their messages may
// arrive in another order.
func threadStatus(d *director) {
	for _, code := range []int{0, 5} {
		d.endAfter(d.script().endThread(3), code)
	}
	for range scale(200, 10) {
		d.do(d.script().startThread(d.script().endThread(3)).end(0))
	}
}

// endAfter runs a process that starts thread t, and ends the process after t.
func (d *director) endAfter(t *process, code int) {
	g := d.gate()
	p := d.script().startThread(t)
	p.WaitFor(g.r)
	d.start(p.end(code))
	await(func() bool {
		tasks, err := os.ReadDir("/proc/" + itoa(p.pid) + "/task")
		d.must(err)
		return len(tasks) == 1
	})
	d.awaitReaders(p.pid)
	g.open()
	d.wantCode(d.finish(p), code)
}

// threadKilled lets seccomp kill one thread with SIGSYS; its process ends later with a code.
func threadKilled(d *director) {
	for range scale(5, 2) {
		t := d.script()
		t.filterCall(unix.SYS_GETPPID, unix.SECCOMP_RET_KILL_THREAD)
		t.call("getppid", unix.SYS_GETPPID)
		d.endAfter(t.endThread(1), 5)
	}
}

// heldThread stops a thread by ptrace during its exit with status 1, until the leader has ended
// with status 2. The thread began its exit first, but its message comes last.
func heldThread(d *director) {
	for range scale(3, 1) {
		thread, leader := d.gate(), d.gate()
		t := d.script()
		t.WaitFor(thread.r)
		p := d.script().startThread(t.endThread(1))
		p.WaitFor(leader.r)
		d.start(p.endThread(2))
		d.awaitReaders(p.pid)
		tid := p.started(1)
		if err := ptraceCall(unix.PTRACE_SEIZE, tid, unix.PTRACE_O_TRACEEXIT); err != nil {
			d.skip("trace a thread: %v", err)
		}
		thread.open()
		for !d.reap(tid).status.Stopped() {
		}
		leader.open()
		d.awaitZombieLeader(p)
		d.must(unix.PtraceDetach(tid))
		d.wantCode(d.finish(p), 2)
	}
}
