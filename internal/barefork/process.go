package barefork

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options say how a process is started. The zero value is a plain fork.
type Options struct {
	// PID is the pid of the process, 0 for any. It needs CAP_SYS_ADMIN; the error is EEXIST
	// while another process has the pid.
	PID int
	// Cgroup is a descriptor of the process's cgroup v2 directory, 0 for the caller's
	// cgroup.
	Cgroup int
	// Share lets the process share the caller's memory, as vfork(2) does, instead of
	// copying it, so that it starts and ends much faster. It cannot start threads.
	Share bool

	// Flags are further flags of clone(2), such as CLONE_NEWNS. Flags that share memory with
	// the caller would break a Go program.
	Flags uint64
}

// Process is a running script.
type Process struct {
	PID    int
	pages  []byte // shared with the child: its calls and their results
	script *Script
}

// cloneArgs is struct clone_args of linux/sched.h as of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	setTID, setTIDSize, cgroup                                           uint64
}

const (
	cloneClearSighand = 1 << 32
	cloneIntoCgroup   = 1 << 33
	page              = 4096
	cloneThread       = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM
)

// Start starts a process that runs s. The caller has to wait for the process and then call Free.
func Start(s *Script, opts Options) (*Process, error) {
	scripts := append([]*Script{s}, s.threads()...)
	// One page for each script's calls. Threads need no stack, because they handle no
	// signals, but clone(2) requires one: the end of the page.
	pages, err := unix.Mmap(-1, 0, page*len(scripts), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map memory for scripts: %w", err)
	}
	p := &Process{pages: pages, script: s}
	if opts.Share && (opts.PID != 0 || opts.Cgroup != 0 || opts.Flags != 0 || len(scripts) > 1) {
		p.Free()
		return nil, errors.New("a process that shares memory takes no other options and no threads")
	}
	nextThread := 1
	for i, t := range scripts {
		if t.err == nil && i > 0 && len(t.threads()) > 0 {
			t.err = errors.New("threads of threads are not supported")
		}
		if t.err != nil {
			p.Free()
			return nil, t.err
		}
		calls := p.calls(i)
		copy(calls, t.calls)
		end := len(t.calls)
		calls[end] = call{number: unix.SYS_EXIT_GROUP, args: [6]uintptr{EndStatus}, result: notRun}
		for c := range calls[:end] {
			switch {
			case calls[c].number == startThread:
				at := uintptr(unsafe.Pointer(&pages[page*nextThread]))
				calls[c].args = [6]uintptr{calls[c].args[0], at + page, at}
				nextThread++
			case t.stamp[c]:
				// clock_gettime has two arguments; the unused 5th and 6th receive
				// the time.
				calls[c].args[1] = uintptr(unsafe.Pointer(&calls[c].args[4]))
			}
		}
	}

	pid := [1]uint32{uint32(opts.PID)}
	args := &cloneArgs{flags: cloneClearSighand | opts.Flags, exitSignal: uint64(unix.SIGCHLD)}
	if opts.PID != 0 {
		args.setTID, args.setTIDSize = uint64(uintptr(unsafe.Pointer(&pid[0]))), 1
	}
	if opts.Cgroup != 0 {
		args.flags |= cloneIntoCgroup
		args.cgroup = uint64(opts.Cgroup)
	}
	var child uintptr
	var errno syscall.Errno
	if opts.Share {
		child, errno = forkSharing(pages)
	} else {
		child, errno = forkAndRun(args, unsafe.Sizeof(*args), &p.calls(0)[0])
	}
	for _, t := range scripts {
		t.alive()
	}
	if errno != 0 {
		p.Free()
		return nil, fmt.Errorf("clone3: %w", errno)
	}
	p.PID = int(child)
	return p, nil
}

func (p *Process) calls(script int) []call {
	return unsafe.Slice((*call)(unsafe.Pointer(&p.pages[page*script])), maxCalls)
}

// forkAndRun forks; the child never returns. The child has only this thread and no working Go
// runtime, so it must not call anything that could grow the stack, allocate or be preempted.
//
//go:nosplit
//go:norace
//go:noinline
func forkAndRun(args *cloneArgs, size uintptr, first *call) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), size, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for c := first; ; c = (*call)(unsafe.Add(unsafe.Pointer(c), unsafe.Sizeof(call{}))) {
		if c.number == startThread {
			c.result = threadStart(c.args[0], c.args[1], c.args[2])
			continue
		}
		r, _, e := syscall.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if e != 0 {
			r = -uintptr(e)
		}
		c.result = r
	}
}

// forkSharing starts a process that shares the caller's memory. Like a thread it runs the assembly
// loop, which needs no stack.
func forkSharing(pages []byte) (pid uintptr, errno syscall.Errno) {
	at := uintptr(unsafe.Pointer(&pages[0]))
	r := threadStart(unix.CLONE_VM|uintptr(unix.SIGCHLD), at+page, at)
	if int(r) < 0 {
		return 0, syscall.Errno(-r)
	}
	return r, 0
}

// threadStart starts a thread, by clone(2), that makes the calls at script. It returns the thread's
// id or a negative errno.
//
//go:noescape
func threadStart(flags, stack, script uintptr) uintptr

// Result returns the result of call number i in the script of thread t; thread 0 is the process
// itself. ok is false if the call has not returned.
func (p *Process) Result(t, i int) (r int, ok bool) {
	r = int(p.calls(t)[i].result)
	return r, p.calls(t)[i].result != notRun
}

// Stamp returns the time that call number i in the script of thread t has read.
func (p *Process) Stamp(t, i int) (ns uint64, ok bool) {
	c := &p.calls(t)[i]
	if c.result != 0 {
		return 0, false
	}
	return uint64(c.args[4])*1e9 + uint64(c.args[5]), true
}

// Thread returns the id of the i-th thread or child of the script, counted from 1, or 0 if it was
// not started yet.
func (p *Process) Thread(i int) int {
	for at, c := range p.script.calls {
		if c.number != startThread {
			continue
		}
		if i--; i == 0 {
			if r, ok := p.Result(0, at); ok && r > 0 {
				return r
			}
			return 0
		}
	}
	return 0
}

// Check returns an error that names the first failed call. Calls that have not returned, such as
// exit(2), are not errors.
func (p *Process) Check() error {
	for t, s := range append([]*Script{p.script}, p.script.threads()...) {
		for i := range s.calls {
			if r, ok := p.Result(t, i); ok && r < 0 && r > -4096 {
				return fmt.Errorf("process %d, thread %d, call %d: %s: %w", p.PID, t, i, s.names[i], syscall.Errno(-r))
			}
		}
	}
	return nil
}

// Free releases the memory of the script and its results.
func (p *Process) Free() {
	if p.pages != nil {
		unix.Munmap(p.pages)
		p.pages = nil
	}
}
