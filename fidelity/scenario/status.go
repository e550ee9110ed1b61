package scenario

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadStatus ends processes with another status than their threads: threads that ended long
// before, and threads that end at the same time, so that their messages may come in another
// order.
func threadStatus(d *director) {
	for _, code := range []int{0, 5} {
		g := d.gate()
		p := d.script().startThread(d.script().endThread(3))
		p.WaitFor(g.r)
		d.start(p.end(code))
		d.awaitThreads(p.pid, 1)
		d.awaitReaders(p.pid)
		g.open()
		status := d.finish(p)
		d.want(status.ExitStatus() == code, "wait status %#x", status)
		g.close()
	}
	for range scale(200, 10) {
		p := d.script().startThread(d.script().endThread(3))
		d.do(p.end(0))
	}
}

// awaitThreads waits until a process has at most n threads.
func (d *director) awaitThreads(pid, n int) {
	for {
		tasks, err := os.ReadDir("/proc/" + itoa(pid) + "/task")
		d.must(err)
		if len(tasks) <= n {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
	}
}

// threadKilled lets seccomp kill one thread with SIGSYS; its process ends later with a code.
func threadKilled(d *director) {
	const getppid = unix.SYS_GETPPID
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: getppid},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_THREAD},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	for range scale(5, 2) {
		g := d.gate()
		t := d.script()
		t.call("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		t.call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
		t.call("getppid", unix.SYS_GETPPID)
		p := d.script().startThread(t.endThread(1))
		p.WaitFor(g.r)
		d.start(p.end(5))
		d.awaitThreads(p.pid, 1)
		d.awaitReaders(p.pid)
		g.open()
		status := d.finish(p)
		d.want(status.ExitStatus() == 5, "wait status %#x", status)
		g.close()
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
		const options = unix.PTRACE_O_TRACEEXIT
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, options, 0, 0); errno != 0 {
			d.skip("trace a thread: %v", errno)
		}
		thread.open()
		d.awaitStop(tid)
		leader.open()
		d.awaitZombieLeader(p)
		d.must(unix.PtraceDetach(tid))
		status := d.finish(p)
		d.want(status.ExitStatus() == 2, "wait status %#x", status)
		thread.close()
		leader.close()
	}
}

// awaitStop waits until a traced thread has stopped in its exit.
func (d *director) awaitStop(tid int) {
	for !d.reap(tid).status.Stopped() {
	}
}
