package scenario

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threads200 executes this program, which starts threads without recording them.
func threads200(d *director) {
	d.do(d.light().image(d.self, []string{"threads"}, role("threads", 3, scale(200, 50))))
}

// threadEnds has threads that end one after the other while their process lives on, and one that
// lives until the process ends.
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

// threadStatus ends processes with another status than their threads: threads that ended long
// before, and threads that end at the same time, so that their messages may come in another
// order.
func threadStatus(d *director) {
	for _, code := range []int{0, 5} {
		d.endAfter(d.script().endThread(3), code)
	}
	for range scale(200, 10) {
		d.do(d.script().startThread(d.script().endThread(3)).end(0))
	}
}

// endAfter ends a process after a thread that it starts.
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
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPPID},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_THREAD},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	for range scale(5, 2) {
		t := d.script()
		t.call("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		t.call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
		t.call("getppid", unix.SYS_GETPPID)
		d.endAfter(t.endThread(1), 5)
	}
	runtime.KeepAlive(&filter)
}

// heldThread stops a thread, by ptrace, in the middle of its exit with status 1 until the leader
// has ended with status 2. The thread began its exit first, but its message comes last.
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
