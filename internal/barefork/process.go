package barefork

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/tinyelf"
)

// Options describe how to start a process. The zero value is a plain fork.
type Options struct {
	// PID is the requested pid, or 0 for any. It needs CAP_SYS_ADMIN. The error is EEXIST if
	// another process has the pid.
	PID int
	// Cgroup is a descriptor of a cgroup v2 directory, or 0 for the caller's cgroup.
	Cgroup int
	// Share shares the caller's memory instead of copying it, like vfork(2), so that the
	// process starts and exits much faster. Such a process cannot start threads.
	Share bool

	// Flags are additional flags of clone(2), such as CLONE_NEWNS. Flags that share memory with
	// the caller would break a Go program.
	Flags uint64

	// Self, unless zero, receives the process's pid in its own pid namespace.
	Self Word
}

// Process is a running script.
type Process struct {
	PID     int
	memory  []byte // shared with the process: calls, results, and other arguments
	at      uintptr
	scripts []*Script
}

// Start starts a process that runs s. The caller must wait for the process and then call Free. If
// the kernel lacks a requested feature, the error is an errors.ErrUnsupported that names the
// feature.
func Start(s *Script, opts Options) (*Process, error) {
	if opts.Share && (opts.PID != 0 || opts.Cgroup != 0 || opts.Flags != 0 || len(s.others) > 0) {
		return nil, errors.New("a process that shares memory can have no other options and no threads")
	}
	if opts.Share {
		return start(s, Clone{Flags: unix.CLONE_VM, old: true}, nil)
	}
	c := Clone{Flags: opts.Flags}
	if opts.Self != (Word{}) {
		c.Flags, c.ChildTID = c.Flags|unix.CLONE_CHILD_SETTID, opts.Self
	}
	if opts.PID != 0 {
		c.SetTID = []uint32{uint32(opts.PID)}
	}
	if opts.Cgroup != 0 {
		c.Cgroup = opts.Cgroup
	}
	if err := c.Lacks(); err != nil {
		return nil, err
	}
	if clone3().exists == nil && !noClearSighand.Load() {
		clearing := c
		clearing.Flags |= cloneClearSighand
		p, err := start(s, clearing, nil)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.E2BIG) {
			return p, err
		}
	}
	c.old = true
	p, err := startCleared(s, c)
	if err == nil {
		noClearSighand.Store(true)
	}
	return p, err
}

// start starts a process that runs s. If begin is not nil, the process runs begin first, which
// continues with s.
func start(s *Script, c Clone, begin *Script) (*Process, error) {
	scripts := s.all()
	all := scripts
	if begin != nil {
		all, s = append(all, begin), begin
	}
	// The last script has one call, which starts the other scripts.
	first := new(Script).Clone(s, &c)
	all = append(all, first)
	l := newLayout(all, 0)
	if l.err != nil {
		return nil, l.err
	}
	p := &Process{scripts: scripts}
	fd, err := p.mmap(len(l.calls)*int(callSize) + len(l.data))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	l = newLayout(all, p.at) // again, with the address
	for i, s := range all {
		copy(p.calls(i), l.calls[i*maxCalls:][:len(s.calls)+1])
	}
	copy(p.memory[len(l.calls)*int(callSize):], l.data)
	for i, s := range scripts {
		for call, write := range s.resume {
			at := []uintptr{p.at, uintptr(len(p.memory)), uintptr(fd), p.at + uintptr(i)*page + uintptr(call)*callSize}
			elf, err := program(at)
			if err == nil {
				err = write(elf)
			}
			if err != nil {
				p.Free()
				return nil, fmt.Errorf("write a program: %w", err)
			}
		}
	}
	pid := int(startCall(&p.calls(len(all) - 1)[0]))
	if pid < 0 {
		p.Free()
		return nil, fmt.Errorf("%s: %w", first.calls[0].name, syscall.Errno(-pid))
	}
	p.PID = pid
	return p, nil
}

// Scripts are at addresses from lowest on. Neither the Go runtime nor tinyelf programs use these
// addresses, even with 39-bit addresses.
const (
	lowest = 0x20_0000_0000
	gap    = 1 << 24 // larger than any script's memory
)

var mapped atomic.Uintptr

// mmap maps the memory from a file, so that programs can map it too, and returns the file's
// descriptor.
func (p *Process) mmap(size int) (fd int, err error) {
	fd, err = unix.MemfdCreate("scripts", 0)
	if err != nil {
		return 0, fmt.Errorf("allocate memory for scripts: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		for range 4096 {
			at := lowest + mapped.Add(gap)%(1<<12*gap)
			var memory unsafe.Pointer
			memory, err = unix.MmapPtr(fd, 0, *(*unsafe.Pointer)(unsafe.Pointer(&at)), uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE)
			if err == nil {
				p.at, p.memory = at, unsafe.Slice((*byte)(memory), size)
				return fd, nil
			}
			if err != unix.EEXIST {
				break
			}
		}
	}
	unix.Close(fd)
	return 0, fmt.Errorf("map memory for scripts: %w", err)
}

// program returns an ELF program. It maps the memory at in[0] of in[1] bytes from descriptor in[2],
// and makes the calls at in[3].
func program(in []uintptr) ([]byte, error) {
	const size = 256 // holds the code; resume has the address of the data after it
	words := unsafe.Slice((*byte)(unsafe.Pointer(&in[0])), 8*len(in))
	code := unsafe.Slice((*byte)(resumeCode()), size)
	return tinyelf.Program(append(bytes.Clone(code), words...))
}

// startCall makes one call that starts a process or thread, and returns its result.
//
//go:noescape
func startCall(c *call) uintptr

// resume is the machine code of the programs that function program makes.
//
//nolint:unused // vet wants a declaration of what only the assembly names
func resume()

// resumeCode returns the address of resume.
func resumeCode() unsafe.Pointer

func (p *Process) calls(script int) []call {
	return unsafe.Slice((*call)(unsafe.Pointer(&p.memory[page*uintptr(script)])), maxCalls)
}

// Result returns the result of call i in the script of thread t. Thread 0 is the process itself. ok
// is false if the call has not returned.
func (p *Process) Result(t, i int) (r int, ok bool) {
	r = int(atomic.LoadUintptr(&p.calls(t)[i].result))
	return r, uintptr(r) != notRun
}

// Stamp returns the time that call i in the script of thread t read.
func (p *Process) Stamp(t, i int) (ns uint64, ok bool) {
	if r, ok := p.Result(t, i); !ok || r != 0 {
		return 0, false
	}
	c := &p.calls(t)[i]
	return uint64(c.args[4])*1e9 + uint64(c.args[5]), true
}

// Arg returns argument arg, from 0, of call i in the script of thread t. The kernel may have
// changed it.
func (p *Process) Arg(t, i, arg int) uintptr { return atomic.LoadUintptr(&p.calls(t)[i].args[arg]) }

// Bytes returns n bytes at the address in argument arg, from 0, of call i in the script of thread
// t.
func (p *Process) Bytes(t, i, arg, n int) []byte {
	return p.memory[p.calls(t)[i].args[arg]-p.at:][:n]
}

// Thread returns the id of a thread or child, or 0 if it was not started. Threads and children are
// counted from 1, each before those that it starts.
func (p *Process) Thread(n int) int {
	for t, s := range p.scripts {
		for i, c := range s.calls {
			if c.other == p.scripts[n] {
				if r, ok := p.Result(t, i); ok && r > 0 {
					return r
				}
				return 0
			}
		}
	}
	return 0
}

// Check returns an error that names the first call that failed unexpectedly, or succeeded
// unexpectedly. Calls that have not returned, such as exit(2), are not errors. If the kernel lacks
// a feature for starting a process, the error is an errors.ErrUnsupported that names the feature.
func (p *Process) Check() error {
	for t, s := range p.scripts {
		for i := range s.calls {
			r, ok := p.Result(t, i)
			lacks := s.calls[i].lacks()
			switch fails := s.calls[i].fails; {
			case !ok, fails != 0 && r == -int(fails):
			case lacks != nil && r < 0:
				return fmt.Errorf("process %d, thread %d, call %d: %w", p.PID, t, i, lacks)
			case fails != 0:
				return fmt.Errorf("process %d, thread %d, call %d: %s returned %d, want %w", p.PID, t, i, s.calls[i].name, r, fails)
			case r < 0 && r > -4096:
				return fmt.Errorf("process %d, thread %d, call %d: %s: %w", p.PID, t, i, s.calls[i].name, syscall.Errno(-r))
			}
		}
	}
	return nil
}

// Kill kills the process, waits for it and calls Free. The process must be a child of this process.
func (p *Process) Kill() {
	unix.Kill(p.PID, unix.SIGKILL)
	unix.Wait4(p.PID, nil, 0, nil)
	p.Free()
}

// Free frees the memory of the script and its results.
func (p *Process) Free() {
	if p.memory != nil {
		unix.MunmapPtr(unsafe.Pointer(&p.memory[0]), uintptr(len(p.memory)))
		p.memory = nil
	}
}
