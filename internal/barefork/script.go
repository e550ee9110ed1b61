package barefork

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Script is the list of system calls of a process or thread. It continues after a failed call, see
// [Process.Check]. At the end of the list it calls exit_group(EndStatus).
type Script struct {
	calls  []scriptCall
	others []*Script                      // scripts that this script starts, in order
	resume map[int]func(elf []byte) error // key: index of the first call of each program
}

// scriptCall is a system call that has no address yet.
type scriptCall struct {
	name      string
	number    uintptr
	args      []any
	other     *Script    // script that the call starts
	clone     *Clone     // describes the start; nil if number and args do
	onFailure *Script    // script that continues if the call fails
	skip      int        // index of the next call after a failure; 0 means the following one
	fails     unix.Errno // expected errno; 0 means success
}

// EndStatus is the exit status of a process at the end of its script.
const EndStatus = 99

// Buffer is an argument: the address of this many bytes, which [Process.Bytes] returns.
type Buffer int

// Memory is initialised memory with an address for several arguments, see [Within].
type Memory struct{ Bytes []byte }

// Within is an argument: an address in a Memory.
type Within struct {
	*Memory
	Offset int
}

// Word is an argument: the address of another argument (0 to 5) or of the result (6) of a call.
type Word struct {
	Script *Script
	Call   int // index of the call
	Index  int
}

const result = 6 // index of a call's result for Word

// Call appends a system call. Arguments are integers, strings (passed with a NUL), slices of plain
// values, [Buffer], [Within] and [Word]. []string is passed as for execve(2), []any as the address
// of consecutive values, and nil as 0.
func (s *Script) Call(name string, number uintptr, args ...any) *Script {
	s.calls = append(s.calls, scriptCall{name: name, number: number, args: args})
	return s
}

// Exec appends execve(2).
func (s *Script) Exec(path string, argv, env []string) *Script {
	return s.Call("execve", unix.SYS_EXECVE, path, argv, env)
}

// ExecFD appends execveat(2) of an open file.
func (s *Script) ExecFD(fd int, argv, env []string) *Script {
	return s.Call("execveat", unix.SYS_EXECVEAT, fd, "", argv, env, unix.AT_EMPTY_PATH)
}

// Fails marks the last call as one that must fail.
func (s *Script) Fails(with unix.Errno) *Script {
	s.calls[len(s.calls)-1].fails = with
	return s
}

// Resume assigns the following calls to a program that the previous call executes. When the script
// starts, write receives the program's executable file.
func (s *Script) Resume(write func(elf []byte) error) *Script {
	if s.resume == nil {
		s.resume = make(map[int]func([]byte) error)
	}
	s.resume[len(s.calls)] = write
	return s
}

// Exit appends exit_group(2), which ends the process.
func (s *Script) Exit(code int) *Script { return s.Call("exit_group", unix.SYS_EXIT_GROUP, code) }

// ExitThread appends exit(2), which ends the thread.
func (s *Script) ExitThread(code int) *Script { return s.Call("exit", unix.SYS_EXIT, code) }

// WaitFor appends a read(2) of one byte, which waits for a writer.
func (s *Script) WaitFor(fd int) *Script {
	return s.Call("read", unix.SYS_READ, fd, Buffer(1), 1)
}

// Notify appends a write(2) of one byte.
func (s *Script) Notify(fd int) *Script {
	return s.Call("write", unix.SYS_WRITE, fd, Buffer(1), 1)
}

// Stop appends an endless wait.
func (s *Script) Stop() *Script { return s.Call("ppoll", unix.SYS_PPOLL, nil, 0, nil, nil, 0) }

// Pin appends a call that binds the thread to one CPU.
func (s *Script) Pin(cpu int) *Script {
	mask := make([]byte, 1024)
	mask[cpu/8] = 1 << (cpu % 8) // an array of longs, little endian on amd64 and arm64
	return s.Call("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, 0, len(mask), mask)
}

// Thread appends the start of a thread that runs another script.
func (s *Script) Thread(other *Script) *Script {
	return s.Start(other, "clone", unix.SYS_CLONE, cloneThread)
}

// Child appends the start of a process that runs another script, by clone(2) with the flags.
// SIGCHLD is added unless the flags have a signal. 0 is fork(2), CLONE_VM|CLONE_VFORK is vfork(2).
// [Process.Thread] returns the pid.
func (s *Script) Child(flags uintptr, other *Script) *Script {
	if flags&0xff == 0 {
		flags |= uintptr(unix.SIGCHLD)
	}
	return s.Start(other, "clone", unix.SYS_CLONE, flags)
}

// Start appends a clone(2) or clone3(2) with at most five arguments. The new process or thread runs
// another script without a stack.
func (s *Script) Start(other *Script, name string, number uintptr, args ...any) *Script {
	s.others = append(s.others, other)
	s.calls = append(s.calls, scriptCall{name: name, number: number, args: args, other: other})
	return s
}

// Clone appends the start of a process or thread that runs another script. The caller may change c
// until the script starts.
func (s *Script) Clone(other *Script, c *Clone) *Script {
	s.others = append(s.others, other)
	s.calls = append(s.calls, scriptCall{name: c.call(), other: other, clone: c})
	return s
}

// Stamp appends a call that reads CLOCK_MONOTONIC, see [Process.Stamp].
func (s *Script) Stamp() *Script {
	// clock_gettime has two arguments; the unused 5th and 6th receive the time.
	return s.Call("clock_gettime", unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, Word{s, len(s.calls), 4})
}

// SkipUnless makes each given call, if it fails, skip the calls between it and the end of the
// script so far. The given calls must have fewer than six arguments.
func (s *Script) SkipUnless(calls ...int) *Script {
	for _, i := range calls {
		s.calls[i].skip = len(s.calls)
	}
	return s
}

// Len returns the number of calls, which is the index of the next call.
func (s *Script) Len() int { return len(s.calls) }

// all returns the script and all scripts that it starts, directly or not. Each precedes those that
// it starts.
func (s *Script) all() []*Script {
	list := []*Script{s}
	for _, o := range s.others {
		list = append(list, o.all()...)
	}
	return list
}

// call is one system call of a script in memory. The assembly depends on its layout.
type call struct {
	number uintptr
	args   [6]uintptr
	result uintptr // notRun until the call has returned
}

const (
	// notRun is a result that no system call returns.
	notRun = ^uintptr(0) - 1<<32
	// starts is added to the number of a call that starts a process or thread. The new process
	// or thread continues at the address in the last argument.
	starts = uintptr(1) << 63
	// skips is added to the number of a call that continues at the address in the last argument
	// if it fails.
	skips    = uintptr(1) << 62
	callSize = unsafe.Sizeof(call{})
	maxCalls = 256 // of a script, including its end
	page     = maxCalls * callSize
)

// layout assigns addresses to the calls of scripts, then to the data of their arguments.
type layout struct {
	at    uintptr
	place map[any]uintptr // of scripts, and of each Memory
	calls []call
	data  []byte
	err   error
}

func newLayout(scripts []*Script, at uintptr) *layout {
	l := &layout{at: at, place: make(map[any]uintptr)}
	for i, s := range scripts {
		l.place[s] = at + uintptr(i)*page
	}
	l.calls = make([]call, len(scripts)*maxCalls)
	for i, s := range scripts {
		if len(s.calls) >= maxCalls {
			l.err = fmt.Errorf("script of %d calls exceeds the limit of %d", len(s.calls), maxCalls-1)
			return l
		}
		calls := l.calls[i*maxCalls:]
		for k, c := range s.calls {
			if c.clone != nil {
				c.number, c.args = c.clone.arguments()
			}
			calls[k].number, calls[k].result = c.number, notRun
			for a, arg := range c.args {
				calls[k].args[a] = l.word(arg)
			}
			if c.other != nil {
				calls[k].number |= starts
				calls[k].args[5] = l.place[c.other]
			}
			if c.onFailure != nil {
				calls[k].number |= skips
				calls[k].args[5] = l.place[c.onFailure]
			}
			if c.skip != 0 {
				calls[k].number |= skips
				calls[k].args[5] = l.place[s] + uintptr(c.skip)*callSize
			}
		}
		calls[len(s.calls)] = call{number: unix.SYS_EXIT_GROUP, args: [6]uintptr{EndStatus}, result: notRun}
	}
	return l
}

// put adds bytes to the data and returns their address.
func (l *layout) put(b []byte) uintptr {
	at := l.at + uintptr(len(l.calls))*callSize + uintptr(len(l.data))
	l.data = append(l.data, b...)
	l.data = append(l.data, make([]byte, -len(l.data)&7)...)
	return at
}

// words adds words to the data and returns their address.
func (l *layout) words(list []uintptr) uintptr {
	return l.put(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), 8*len(list)))
}

func (l *layout) word(arg any) uintptr {
	switch a := arg.(type) {
	case nil:
		return 0
	case string:
		if strings.Contains(a, "\x00") {
			l.err = fmt.Errorf("argument %q has a NUL", a)
		}
		return l.put(append([]byte(a), 0))
	case Buffer:
		return l.put(make([]byte, a))
	case Within:
		if l.place[a.Memory] == 0 {
			l.place[a.Memory] = l.put(a.Bytes)
		}
		return l.place[a.Memory] + uintptr(a.Offset)
	case Word:
		at := l.place[a.Script] + uintptr(a.Call)*callSize
		if a.Index == result {
			return at + unsafe.Offsetof(call{}.result)
		}
		return at + unsafe.Offsetof(call{}.args) + uintptr(a.Index)*8
	case []string:
		list := make([]uintptr, len(a)+1)
		for i, text := range a {
			list[i] = l.word(text)
		}
		return l.words(list)
	case []any:
		list := make([]uintptr, len(a))
		for i, v := range a {
			list[i] = l.word(v)
		}
		return l.words(list)
	}
	switch v := reflect.ValueOf(arg); {
	case v.CanInt():
		return uintptr(v.Int())
	case v.CanUint():
		return uintptr(v.Uint())
	case v.Kind() == reflect.Slice:
		return l.put(unsafe.Slice((*byte)(v.UnsafePointer()), uintptr(v.Len())*v.Type().Elem().Size()))
	}
	l.err = fmt.Errorf("argument of type %T", arg)
	return 0
}
