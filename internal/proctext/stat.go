package proctext

import (
	"bytes"
	"fmt"
	"os"
)

// Tick is the unit of times in /proc/PID/stat in ns: 1/USER_HZ, on all architectures that quark
// supports.
const Tick = 10_000_000

// Flags of a task, from the kernel's include/linux/sched.h. Their values are unchanged since Linux
// 2.6.
const (
	FlagExiting    = 0x00000004 // the thread is ending; set before sched_process_exit
	FlagForkNoExec = 0x00000040 // forked, and has not executed another image
	FlagSignaled   = 0x00000400 // a signal ends the thread
	FlagKthread    = 0x00200000

	FlagIOWorker = 0x00000010 // a kernel thread of a process, from Linux 5.12 on
)

// sigkill is the bit of SIGKILL in the set of pending signals.
const sigkill = 1 << (9 - 1)

// Stat has the fields of /proc/PID/stat that quark uses, see proc(5).
type Stat struct {
	Comm       []byte // aliases the text
	State      byte
	PPID, PGID uint32
	SID        uint32
	TTYMajor   uint32
	TTYMinor   uint32
	Flags      uint32
	Faults     uint64 // page faults without disk access, including ended threads
	Threads    uint32
	Start      uint64 // ns of CLOCK_BOOTTIME, a multiple of Tick
	Code       uint64 // address of the code; 0 or 1 without permission
	Stack      uint64 // address of the stack; 0 without permission
	ExitSignal uint32 // sent to the parent at the end
	Args       uint64 // address of the arguments, above the stack; 0 without permission
	Killed     bool   // SIGKILL is pending for the thread
}

// Exiting reports whether the thread has begun to end.
func (s *Stat) Exiting() bool { return s.Flags&FlagExiting != 0 }

// Ending reports whether the thread has begun to end, or has to end because of a signal.
func (s *Stat) Ending() bool { return s.Flags&(FlagExiting|FlagSignaled) != 0 || s.Killed }

// ParseStat parses /proc/PID/stat. The comm may contain any byte, including parentheses, blanks and
// newlines; it ends at the last ')', because only numbers follow.
func ParseStat(b []byte) (Stat, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return Stat{}, false
	}
	rest := b[end+1:]
	if len(rest) < 3 || rest[0] != ' ' || rest[2] != ' ' {
		return Stat{}, false
	}
	st := Stat{Comm: b[open+1 : end], State: rest[1]}
	rest = rest[3:]
	for field := 4; field <= 48; field++ {
		var word []byte
		word, rest, _ = Cut(rest, ' ')
		if !st.set(field, word) {
			return Stat{}, false
		}
	}
	return st, true
}

// set parses one field, by its number in proc(5).
func (s *Stat) set(field int, word []byte) (ok bool) {
	switch field {
	case 4:
		s.PPID, ok = Uint32(word)
	case 5:
		s.PGID, ok = Uint32(word)
	case 6:
		s.SID, ok = Uint32(word)
	case 7:
		// The kernel's new_encode_dev, printed as a signed int.
		var dev uint32
		dev, ok = int32Bits(word)
		s.TTYMajor, s.TTYMinor = dev>>8&0xfff, dev>>12&0xfff00|dev&0xff
	case 9:
		s.Flags, ok = Uint32(word)
	case 10:
		s.Faults, ok = Uint64(word, 10)
	case 20:
		s.Threads, ok = Uint32(word)
	case 22:
		s.Start, ok = Uint64(word, 10)
		ok = ok && s.Start <= ^uint64(0)/Tick
		s.Start *= Tick
	case 26:
		s.Code, ok = Uint64(word, 10)
	case 28:
		s.Stack, ok = Uint64(word, 10)
	case 31:
		var pending uint64
		pending, ok = Uint64(word, 10)
		s.Killed = pending&sigkill != 0
	case 38:
		s.ExitSignal, ok = int32Bits(word)
	case 48:
		s.Args, _ = Uint64(word, 10)
		ok = true // added by Linux 3.5
	default:
		ok = true // unused; some are negative
	}
	return ok
}

// ParseExitStatus returns the wait status of an ended process from a line that ParseStat accepts:
// the last of its 52 fields. Before Linux 6.1 the field is the status of the leader, not of the
// process. The field is 0 without permission.
func ParseExitStatus(b []byte) (status int32, ok bool) {
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	var word []byte
	for field := 2; field <= 52; field++ {
		word, rest, _ = Cut(rest, ' ')
	}
	bits, ok := int32Bits(bytes.TrimSuffix(word, []byte{'\n'}))
	return int32(bits), ok
}

// ReadStat reads and parses a file such as /proc/PID/stat or /proc/PID/task/TID/stat.
func ReadStat(path string) (Stat, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	st, ok := ParseStat(b)
	if !ok {
		return Stat{}, fmt.Errorf("read %s: invalid text", path)
	}
	return st, nil
}
