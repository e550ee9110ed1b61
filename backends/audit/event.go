package audit

import (
	"bytes"
	"strconv"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/proctext"
)

// event is what the records of one serial number tell, with the raw event that it may become.
type event struct {
	serial   uint32
	stamp    uint64 // no later than the begin of the call, CLOCK_MONOTONIC
	received uint64 // when its first record was
	missing  hole   // what it is if its record of the system call does not come
	call     auditrecord.Call
	known    bool // its record of the system call has come
	complete bool // all its records have come

	success   bool
	result    int64 // of the call
	a0, a2    uint64
	pid, ppid uint32
	cred      engine.Credentials
	login     engine.Login
	has       engine.Fields // of cred and login
	comm      []byte
	exe       []byte
	path      []byte // that an exec was asked for
	hasPath   bool
	args      auditrecord.Arguments

	ev     *engine.RawEvent // nil if it becomes none
	born   bool             // a process, and result is its pid in the initial namespace
	unborn bool             // a thread
	got    engine.Fields    // what was read from /proc
	read   uint64           // when that was done, 0 for not yet
	leader engine.Credentials
	again  uint64 // when to look again whether its process has ended, 0 for not
	until  uint64 // when to give up
	gone   bool   // of an end: its process was seen to be gone
}

func (e *event) reset() {
	args := e.args
	args.Reset()
	args.Limit = procfs.MaxCmdline
	*e = event{comm: e.comm[:0], exe: e.exe[:0], path: e.path[:0], args: args}
}

// add takes what a record says.
func (e *event) add(r *auditrecord.Record) {
	switch r.Type {
	case auditrecord.Syscall:
		e.addCall(r)
	case auditrecord.Execve:
		e.args.Add(r)
	case auditrecord.Path:
		e.addPath(r)
	case auditrecord.EndOfEvent:
		e.complete = true
	}
}

// addCall takes the record of a system call. What makes no sense leaves it unknown.
func (e *event) addCall(r *auditrecord.Record) {
	var abi, nr uint64
	good := true
	number := func(v []byte, base int) uint64 {
		n, ok := proctext.Uint64(v, base)
		good = good && ok
		return n
	}
	ids := 0
	id := func(to *uint32, v []byte) {
		if n, ok := proctext.Uint32(v); ok {
			*to = n
			ids++
		}
	}
	pids, logins := 0, 0
	for m := r.Members(); ; {
		name, v, ok := m.Next()
		if !ok {
			break
		}
		switch string(name) {
		case "arch":
			abi = number(v, 16)
		case "syscall":
			nr = number(v, 10)
		case "success":
			e.success = string(v) == "yes"
		case "exit":
			n, err := strconv.ParseInt(string(v), 10, 64)
			good = good && err == nil
			e.result = n
		case "a0":
			e.a0 = number(v, 16)
		case "a2":
			e.a2 = number(v, 16)
		case "ppid":
			e.ppid = uint32(number(v, 10))
		case "pid":
			e.pid = uint32(number(v, 10))
			pids++
		case "auid":
			if n, ok := proctext.Uint32(v); ok {
				e.login.UID = n
				logins++
			}
		case "ses":
			if n, ok := proctext.Uint32(v); ok {
				e.login.Session = n
				logins++
			}
		case "uid":
			id(&e.cred.UID, v)
		case "euid":
			id(&e.cred.EUID, v)
		case "suid":
			id(&e.cred.SUID, v)
		case "gid":
			id(&e.cred.GID, v)
		case "egid":
			id(&e.cred.EGID, v)
		case "sgid":
			id(&e.cred.SGID, v)
		case "comm":
			e.comm, _ = auditrecord.AppendText(e.comm[:0], v)
		case "exe":
			e.exe, _ = auditrecord.AppendText(e.exe[:0], v)
		}
	}
	if !good || pids != 1 || e.pid == 0 {
		return
	}
	e.known, e.call = true, auditrecord.ABI(abi).Call(uint32(nr))
	if ids == 6 {
		e.has |= engine.FieldsIDs
	}
	if logins == 2 {
		e.has |= engine.FieldLogin.Set()
	}
}

// addPath takes the path that an exec was asked for, which is the first. The kernel has it as
// execveat(2) was given it; others name what is relative to a descriptor by that.
func (e *event) addPath(r *auditrecord.Record) {
	if e.hasPath || e.call != auditrecord.Exec && e.call != auditrecord.ExecAt {
		return
	}
	for m := r.Members(); ; {
		name, v, ok := m.Next()
		switch {
		case !ok:
			return
		case string(name) == "item" && string(v) != "0":
			return
		case string(name) == "name":
			e.path = e.path[:0]
			if fd := int32(e.a0); e.call == auditrecord.ExecAt && fd != atCwd && !bytes.HasPrefix(v, []byte(`"/`)) {
				e.path = strconv.AppendInt(append(e.path, "/dev/fd/"...), int64(fd), 10)
				if len(v) > 0 && string(v) != `""` {
					e.path = append(e.path, '/')
				}
			}
			was := len(e.path)
			e.path, e.hasPath = auditrecord.AppendText(e.path, v)
			// In digits it does not begin with a slash.
			if text := e.path[was:]; was > 0 && len(text) > 0 && text[0] == '/' {
				e.path = append(e.path[:0], text...)
			}
			return
		}
	}
}

// atCwd is AT_FDCWD.
const atCwd = -100

// hasIDs reports whether all ids are told.
func (e *event) hasIDs() bool { return e.has&engine.FieldsIDs == engine.FieldsIDs }

// isBirth reports whether the call may have made a process.
func (e *event) isBirth() bool {
	switch e.call {
	case auditrecord.Fork, auditrecord.Clone3:
		return e.success
	case auditrecord.Clone:
		return e.success && e.a0&cloneThread == 0
	}
	return false
}

// makesThread reports whether the call has made a thread, or may have. One that did not return, as
// an exec of the thread has ended its caller, has no result, which is 0 here.
func (e *event) makesThread() bool {
	return e.result >= 0 && (e.call == auditrecord.Clone && e.a0&cloneThread != 0 || e.call == auditrecord.Clone3 && !e.born || e.unborn)
}

// bears reports whether an event is the birth of a process with a pid.
func (e *event) bears(pid uint32) bool { return e.known && e.isBirth() && e.child() == pid }

func (e *event) isExec() bool { return e.call == auditrecord.Exec || e.call == auditrecord.ExecAt }

// executes reports whether an event is an exec of a process with a pid that has succeeded.
func (e *event) executes(pid uint32) bool {
	return e.known && e.pid == pid && e.success && e.isExec()
}

// isCheck reports whether it was asked only whether a file may be executed, with AT_EXECVE_CHECK
// (Linux 6.14), unless the record of the arguments is missing.
func (e *event) isCheck() bool {
	return e.call == auditrecord.ExecAt && e.success && !e.args.Some()
}

// isEnd reports whether it is the end of a process, or of a thread.
func (e *event) isEnd() bool { return e.call == auditrecord.ExitGroup || e.call == auditrecord.Exit }

// Flags of clone(2).
const (
	cloneThread = 0x10000
	cloneParent = 0x8000
	cloneSignal = 0xff
)

// child is the number that a birth returned.
func (e *event) child() uint32 { return uint32(e.result) }
