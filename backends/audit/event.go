package audit

import (
	"bytes"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/proctext"
)

// state is the set of records of an event that have arrived.
type state uint8

const (
	unrelated state = iota // none of a system call
	partial                // some, but not SYSCALL
	known                  // SYSCALL
	complete               // all
	concluded              // no more records are needed
)

// event has the values in the records of one serial number, and the raw event that they describe.
type event struct {
	call
	serial   uint32
	stamp    uint64 // CLOCK_MONOTONIC, no later than the begin of the call
	received uint64 // when the first record was
	at       uint64 // when /proc was read for it, else received
	state    state

	path    []byte // the path given to an exec
	hasPath bool
	args    auditrecord.Arguments

	ev   *engine.RawEvent // nil if it becomes none
	born bool             // of a birth: result is the pid of a process
	got  engine.Fields    // the fields read from /proc
}

// call has the values in a SYSCALL record.
type call struct {
	nr        auditrecord.Call
	success   bool
	result    int64
	a0        uint64
	pid, ppid uint32
	cred      engine.Credentials
	login     engine.Login
	comm, exe []byte
}

// abend stands for the call of a process that a signal ends with a core dump.
const abend auditrecord.Call = 255

func (e *event) reset() {
	args := e.args
	args.Reset()
	args.Limit = procfs.MaxCmdline
	*e = event{call: call{comm: e.comm[:0], exe: e.exe[:0]}, path: e.path[:0], args: args}
}

// add adds a record.
func (e *event) add(r *auditrecord.Record) {
	switch r.Type {
	case auditrecord.Abend:
		if e.nr = abend; e.parse(r) {
			e.state = complete
		}
		return
	case auditrecord.Syscall:
		if e.parse(r) {
			e.state = known
		}
	case auditrecord.Execve:
		e.args.Add(r)
	case auditrecord.Path:
		e.addPath(r)
	case auditrecord.EndOfEvent:
		if e.state == known {
			e.state = complete
		}
	case auditrecord.Cwd, auditrecord.ProcTitle:
	default:
		return
	}
	e.state = max(e.state, partial)
}

// numbers are the members with a number of 32 bits.
var numbers = []string{"pid", "ppid", "auid", "ses", "uid", "euid", "suid", "gid", "egid", "sgid"}

// parse reads a SYSCALL record, or the pid of an ANOM_ABEND record. It reports whether all members
// exist and are valid.
func (c *call) parse(r *auditrecord.Record) bool {
	var n [10]uint32
	var abi, nr uint64
	found := 0
	for m := r.Members(); ; {
		name, v, ok := m.Next()
		if !ok {
			break
		}
		switch string(name) {
		case "arch":
			abi, ok = proctext.Uint64(v, 16)
		case "syscall":
			nr, ok = proctext.Uint64(v, 10)
		case "success":
			c.success = string(v) == "yes"
		case "exit":
			var err error
			c.result, err = strconv.ParseInt(string(v), 10, 64)
			ok = err == nil
		case "a0":
			c.a0, ok = proctext.Uint64(v, 16)
		case "comm":
			c.comm, _ = auditrecord.AppendText(c.comm[:0], v)
		case "exe":
			c.exe, _ = auditrecord.AppendText(c.exe[:0], v)
		default:
			if i := slices.Index(numbers, string(name)); i >= 0 {
				n[i], ok = proctext.Uint32(v)
				found++
			}
		}
		if !ok {
			return false
		}
	}
	c.pid, c.ppid, c.login = n[0], n[1], engine.Login{UID: n[2], Session: n[3]}
	c.cred = engine.Credentials{UID: n[4], EUID: n[5], SUID: n[6], GID: n[7], EGID: n[8], SGID: n[9]}
	if c.nr == abend {
		return c.pid != 0
	}
	c.nr = auditrecord.ABI(abi).Call(uint32(nr))
	return c.pid != 0 && found == len(numbers)
}

// addPath adds the first path of an exec: the path that the caller passed. If the path is relative
// to a descriptor of execveat(2), addPath names it as the kernel names it for interpreters.
func (e *event) addPath(r *auditrecord.Record) {
	const atCwd = -100 // AT_FDCWD
	for m := r.Members(); e.isExec() && !e.hasPath; {
		name, v, ok := m.Next()
		switch {
		case !ok, string(name) == "item" && string(v) != "0":
			return
		case string(name) != "name":
			continue
		}
		if e.path, e.hasPath = auditrecord.AppendText(e.path[:0], v); !e.hasPath {
			return
		}
		if fd := int(int32(e.a0)); e.nr == auditrecord.ExecAt && fd != atCwd && !bytes.HasPrefix(e.path, []byte("/")) {
			dir := "/dev/fd/" + strconv.Itoa(fd)
			if len(e.path) > 0 {
				dir += "/"
			}
			e.path = append([]byte(dir), e.path...)
		}
	}
}

// pending reports whether the SYSCALL record has arrived but the event is not concluded.
func (e *event) pending() bool { return e.state == known || e.state == complete }

// isBirth reports whether the call may have created a process.
func (e *event) isBirth() bool {
	return e.success && (e.nr == auditrecord.Fork || e.nr == auditrecord.Clone3 || e.nr == auditrecord.Clone && e.a0&unix.CLONE_THREAD == 0)
}

// child returns the number that the creating call returned.
func (e *event) child() uint32 { return uint32(e.result) }

// bears reports whether the event is the birth of the process with this pid.
func (e *event) bears(pid uint32) bool { return e.isBirth() && e.child() == pid }

func (e *event) isExec() bool { return e.nr == auditrecord.Exec || e.nr == auditrecord.ExecAt }

// executes reports whether the event is an exec that has succeeded.
func (e *event) executes() bool { return e.isExec() && e.success }

func (e *event) isEnd() bool { return e.nr == auditrecord.ExitGroup }
