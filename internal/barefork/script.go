package barefork

import (
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call of a script. thread_*.s depends on its layout.
type call struct {
	number uintptr
	args   [6]uintptr
	result uintptr // notRun until it has returned
}

// notRun is a value that no system call returns.
const notRun = ^uintptr(0) - 1<<32

// maxCalls is the number of calls of a script, its end included, that fit in one page.
const maxCalls = 4096 / int(unsafe.Sizeof(call{}))

// Script is the list of system calls of a process or thread. A failed call does not end it: see
// [Process.Check]. At the end of the list it calls exit_group(EndStatus).
type Script struct {
	names []string
	calls []call
	keep  []any // memory that the arguments point to
	err   error
	stamp map[int]bool // indexes of the calls that read the clock
}

// EndStatus is the exit status of a process whose script has reached its end.
const EndStatus = 99

// startThread is the number of a pseudo call that starts a thread or process. Its first argument
// are the flags of clone(2).
const startThread = ^uintptr(0)

// Call appends a system call. Arguments are integers, strings (passed with a NUL), slices and the
// result of [Script.Strings]; nil is 0.
func (s *Script) Call(name string, number uintptr, args ...any) *Script {
	c := call{number: number, result: notRun}
	for i, a := range args {
		c.args[i] = s.word(a)
	}
	s.names = append(s.names, name)
	s.calls = append(s.calls, c)
	if len(s.calls) >= maxCalls {
		s.err = fmt.Errorf("script of %d calls: at most %d fit", len(s.calls), maxCalls-1)
	}
	return s
}

func (s *Script) word(a any) uintptr {
	if text, ok := a.(string); ok {
		b, err := unix.BytePtrFromString(text)
		if err != nil {
			s.err = fmt.Errorf("argument %q: %w", text, err)
		}
		s.keep = append(s.keep, b)
		return uintptr(unsafe.Pointer(b))
	}
	switch v := reflect.ValueOf(a); {
	case !v.IsValid(): // nil
		return 0
	case v.CanInt():
		return uintptr(v.Int())
	case v.CanUint():
		return uintptr(v.Uint())
	case v.Kind() == reflect.Slice:
		s.keep = append(s.keep, a)
		return uintptr(v.UnsafePointer())
	}
	s.err = fmt.Errorf("argument of type %T", a)
	return 0
}

// Strings returns an argument array for execve(2).
func (s *Script) Strings(list []string) []*byte {
	out := make([]*byte, 0, len(list)+1)
	for _, v := range list {
		p, err := unix.BytePtrFromString(v)
		if err != nil {
			s.err = fmt.Errorf("argument %q: %w", v, err)
		}
		out = append(out, p)
	}
	return append(out, nil)
}

// Exec appends execve(2).
func (s *Script) Exec(path string, argv, env []string) *Script {
	return s.Call("execve", unix.SYS_EXECVE, path, s.Strings(argv), s.Strings(env))
}

// ExecFD appends execveat(2) of an open file.
func (s *Script) ExecFD(fd int, argv, env []string) *Script {
	return s.Call("execveat", unix.SYS_EXECVEAT, fd, "", s.Strings(argv), s.Strings(env), unix.AT_EMPTY_PATH)
}

// Exit appends exit_group(2), the end of the process.
func (s *Script) Exit(code int) *Script { return s.Call("exit_group", unix.SYS_EXIT_GROUP, code) }

// ExitThread appends exit(2), the end of the thread.
func (s *Script) ExitThread(code int) *Script { return s.Call("exit", unix.SYS_EXIT, code) }

// WaitFor appends a read(2) of one byte, at which the thread waits for a writer.
func (s *Script) WaitFor(fd int) *Script {
	return s.Call("read", unix.SYS_READ, fd, make([]byte, 8), 1)
}

// Tell appends a write(2) of one byte.
func (s *Script) Tell(fd int) *Script {
	return s.Call("write", unix.SYS_WRITE, fd, make([]byte, 8), 1)
}

// Stop appends an endless wait.
func (s *Script) Stop() *Script { return s.Call("ppoll", unix.SYS_PPOLL, nil, 0, nil, nil, 0) }

// Thread appends the start of a thread that runs another script.
func (s *Script) Thread(other *Script) *Script { return s.clone(cloneThread, other) }

// Child appends the start of a process that runs another script, by clone(2) with the flags, and
// SIGCHLD unless they have a signal. 0 is fork(2), CLONE_VM|CLONE_VFORK is vfork(2).
// [Process.Thread] returns its pid.
func (s *Script) Child(flags uintptr, other *Script) *Script {
	if flags&0xff == 0 {
		flags |= uintptr(unix.SIGCHLD)
	}
	return s.clone(flags, other)
}

func (s *Script) clone(flags uintptr, other *Script) *Script {
	s.Call("clone", startThread, flags)
	s.keep = append(s.keep, other)
	return s
}

// Stamp appends a reading of CLOCK_MONOTONIC: see [Process.Stamp].
func (s *Script) Stamp() *Script {
	if s.stamp == nil {
		s.stamp = make(map[int]bool)
	}
	s.stamp[len(s.calls)] = true
	return s.Call("clock_gettime", unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC)
}

// Len returns the number of calls, which is the index of the next one.
func (s *Script) Len() int { return len(s.calls) }

// threads returns the scripts of the threads and children in the order of their start.
func (s *Script) threads() (list []*Script) {
	for _, k := range s.keep {
		if t, ok := k.(*Script); ok {
			list = append(list, t)
		}
	}
	return list
}

// alive keeps the memory of the arguments until here.
func (s *Script) alive() { runtime.KeepAlive(s.keep) }
