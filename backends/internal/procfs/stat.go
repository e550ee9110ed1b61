package procfs

import (
	"bytes"
	"math/bits"

	"github.com/quark-linux/quark/engine"
)

// Flags of a task, from the kernel's include/linux/sched.h; their values have
// not changed since Linux 2.6.
const (
	flagForkNoExec = 0x00000040 // forked and not executed another image yet
	flagKthread    = 0x00200000
)

// stat is what we take from /proc/PID/stat.
type stat struct {
	comm       []byte // aliases the text
	state      byte
	ppid, pgid uint32
	sid        uint32
	tty        engine.TTY
	flags      uint32
	threads    uint32
	start      uint64 // ns since boot, a multiple of a tick
	memory     uint64 // see Status
}

// parseStat parses the line of proc(5). comm may hold anything, parentheses,
// blanks and newlines included: it ends at the last ')', because only numbers
// follow.
func parseStat(b []byte) (st stat, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	st.comm = b[open+1 : end]
	rest := b[end+1:]
	if len(rest) < 3 || rest[0] != ' ' || rest[2] != ' ' {
		return stat{}, false
	}
	st.state = rest[1]
	rest = rest[3:]
	var code, stack uint64
	for field := 4; field <= 28; field++ {
		var word []byte
		word, rest, _ = cut(rest, ' ')
		switch field {
		case 4:
			st.ppid, ok = parseU32(word)
		case 5:
			st.pgid, ok = parseU32(word)
		case 6:
			st.sid, ok = parseU32(word)
		case 7:
			// The kernel's new_encode_dev, printed as a signed int.
			var t uint32
			t, ok = parseI32(word)
			st.tty = engine.TTY{Major: t >> 8 & 0xfff, Minor: t>>12&0xfff00 | t&0xff}
		case 9:
			st.flags, ok = parseU32(word)
		case 20:
			st.threads, ok = parseU32(word)
		case 22:
			var ticks uint64
			ticks, ok = parseU64(word)
			ok = ok && ticks <= ^uint64(0)/engine.ProcStartUnit
			st.start = ticks * engine.ProcStartUnit
		case 26:
			code, ok = parseU64(word)
		case 28:
			stack, ok = parseU64(word)
		default:
			ok = true // of no interest, some are negative
		}
		if !ok {
			return stat{}, false
		}
	}
	if stack != 0 {
		st.memory = code ^ bits.RotateLeft64(stack, 32)
	}
	return st, true
}
