package monitor

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// audit are the records of audit(8), as in its log and from its plugins, with rules for execve,
// execveat, fork, vfork, clone, clone3 and exit_group.
func audit() *Monitor {
	const tick = 10_000_000 // of the coarse clock, at 100 Hz
	return &Monitor{
		Name: "audit", Package: "auditd", Programs: []string{"sh"}, Needs: []string{"auditctl", "auditd"}, File: true, Blocks: true,
		Arguments: []string{"-c", auditdScript, "auditd", "{}", auditdCalls()},
		GuestOnly: "once audit was enabled a kernel audits until it is booted again; --command and --format audit read the records of a running auditd",
		Table: table(map[engine.Kind]string{
			engine.KindFork: "SYSCALL of the parent", engine.KindExec: "SYSCALL and EXECVE", engine.KindExecFailed: "SYSCALL success=no and PATH",
			engine.KindExit: "SYSCALL of exit_group: no signal ends a process for audit",
		}, []claim{
			{engine.FieldPPID, atFork | atExec | atExit, "ppid=, of a fork the pid="},
			{engine.FieldUIDs, atFork | atExec | atExit, "uid=, euid="}, {engine.FieldSUID, atFork | atExec | atExit, "suid="},
			{engine.FieldGIDs, atFork | atExec | atExit, "gid=, egid="}, {engine.FieldSGID, atFork | atExec | atExit, "sgid="},
			{engine.FieldComm, atExec | atExit, "comm="},
			{engine.FieldFilename, atExec | atExit, "exe="},
			{engine.FieldCmdline, atExec, "EXECVE"},
			{engine.FieldCwd, atExec, "CWD"},
			{engine.FieldExit, atExit, "the argument of exit_group"},
		}, "clone3 does not show its flags, so that its threads are told as processes"),
		Foreign: score.Foreign{Early: auditdEarly(), Late: tick},
		Decoder: func() Decoder { return &auditDecoder{wall: truth.WallOffset()} },
	}
}

// auditDecoder gathers the records of one event, which have its number. Those of some events may
// come in turns.
type auditDecoder struct {
	wall int64
	open []*auditEvent
}

type auditEvent struct {
	serial  string
	at      int64
	syscall map[string]string
	args    map[string]string // of EXECVE records
	cwd     string
	path    string // of the first PATH record
}

// auditOpen is how many events may come in turns.
const auditOpen = 64

func (d *auditDecoder) Decode(line []byte, _ uint64, to *Output) error {
	kind, when, serial, text, ok := auditParts(string(line))
	if !ok {
		return fmt.Errorf("no record")
	}
	seconds, ms, _ := strings.Cut(when, ".")
	at, err := strconv.ParseInt(seconds+ms+"000000", 10, 64)
	if err != nil || len(ms) != 3 {
		return fmt.Errorf("a time that is none")
	}
	var ev *auditEvent
	for _, o := range d.open {
		if o.serial == serial {
			ev = o
		}
	}
	switch kind {
	case "SYSCALL":
		if len(d.open) == auditOpen {
			err = d.close(d.open[0], to)
		}
		d.open = append(d.open, &auditEvent{serial: serial, at: at - d.wall, syscall: auditMembers(text), args: make(map[string]string)})
		return err
	case "EXECVE":
		if ev != nil {
			for name, v := range auditMembers(text) {
				ev.args[name] += v // a long one comes in parts, whose names differ
			}
		}
	case "CWD":
		if ev != nil {
			ev.cwd = auditText(auditMembers(text)["cwd"])
		}
	case "PATH":
		if ev != nil && strings.HasPrefix(text, "item=0 ") {
			ev.path = auditText(auditMembers(text)["name"])
		}
	case "PROCTITLE", "EOE": // a log has no EOE, and nothing follows PROCTITLE
		if ev != nil {
			return d.close(ev, to)
		}
	}
	return nil
}

// auditParts cuts a record into its type, its time, the number of its event and what follows,
// without auditd's own translation of that: `type=CWD msg=audit(1.234:5): cwd="/"`.
func auditParts(line string) (kind, when, serial, text string, ok bool) {
	line, _, _ = strings.Cut(line, "\x1d")
	kind, rest, ok := strings.Cut(strings.TrimPrefix(line, "type="), " ")
	rest, ok2 := strings.CutPrefix(strings.TrimPrefix(rest, "msg="), "audit(")
	head, text, ok3 := strings.Cut(rest, "):")
	when, serial, ok4 := strings.Cut(head, ":")
	return kind, when, serial, strings.Trim(text, " \r"), ok && ok2 && ok3 && ok4
}

// auditMembers returns the members of a record, texts with their quotes. A quoted text has no
// quotes or control characters in it, and may have spaces.
func auditMembers(text string) map[string]string {
	members := make(map[string]string, 32)
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		end := strings.IndexByte(rest, ' ')
		if strings.HasPrefix(rest, `"`) {
			if end = strings.IndexByte(rest[1:], '"'); end >= 0 {
				end += 2
			}
		}
		if end < 0 {
			end = len(rest)
		}
		members[name[strings.LastIndexByte(name, ' ')+1:]] = rest[:end]
		text = rest[end:]
	}
	return members
}

// auditText returns a text, which is quoted or in hexadecimal digits.
func auditText(v string) string {
	if text, ok := strings.CutPrefix(v, `"`); ok {
		return strings.TrimSuffix(text, `"`)
	}
	if v == "(null)" || v == "(none)" {
		return ""
	}
	b, err := hex.DecodeString(v)
	if err != nil {
		return v
	}
	return string(b)
}

// Numbers of system calls by architecture, as in SYSCALL records.
var auditCalls = map[string]map[string]string{
	"c000003e": {"56": "clone", "57": "fork", "58": "fork", "435": "fork", "59": "exec", "322": "exec", "231": "exit"},
	"c00000b7": {"220": "clone", "435": "fork", "221": "exec", "281": "exec", "94": "exit"},
}

// close reports an event that is complete.
func (d *auditDecoder) close(e *auditEvent, to *Output) error {
	for i, o := range d.open {
		if o == e {
			d.open = append(d.open[:i], d.open[i+1:]...)
			break
		}
	}
	number := func(name string, base int) (uint32, bool) {
		n, err := strconv.ParseInt(e.syscall[name], base, 64)
		return uint32(n), err == nil
	}
	pid, ok := number("pid", 10)
	if !ok {
		return fmt.Errorf("event %s: no pid", e.serial)
	}
	at := uint64(max(e.at, 0)) // 0 is before the boot
	result, _ := number("exit", 10)
	call := auditCalls[e.syscall["arch"]][e.syscall["syscall"]]
	a0, _ := strconv.ParseUint(e.syscall["a0"], 16, 64)
	switch {
	case call == "clone" && a0&unix.CLONE_THREAD != 0:
	case (call == "fork" || call == "clone") && e.syscall["success"] == "yes":
		_, p := to.add(engine.KindFork, result, at)
		e.ids(p)
		setParent(p, pid)
	case call == "exec" && e.syscall["success"] == "yes":
		_, p := to.add(engine.KindExec, pid, at)
		e.process(p)
		e.arguments(p)
		if e.cwd != "" {
			p.Known, p.Cwd = p.Known.With(engine.FieldCwd), auditdPath(e.cwd)
		}
	case call == "exec":
		ev, p := to.add(engine.KindExecFailed, pid, at)
		e.process(p)
		ev.Failed = engine.FailedExec{Errno: uint16(-int32(result)), Path: e.path, PathKnown: e.path != ""}
	case call == "exit":
		ev, p := to.add(engine.KindExit, pid, at)
		e.process(p)
		setExit(ev, int32(a0&0xff)<<8)
	}
	return nil
}

// process sets what a SYSCALL record says of who called.
func (e *auditEvent) process(p *engine.Process) {
	e.ids(p)
	if n, err := strconv.ParseUint(e.syscall["ppid"], 10, 32); err == nil {
		setParent(p, uint32(n))
	}
	if v, ok := e.syscall["comm"]; ok {
		setComm(p, auditText(v))
	}
	if v, ok := e.syscall["exe"]; ok {
		p.Known, p.Filename = p.Known.With(engine.FieldFilename), auditdPath(auditText(v))
	}
}

func (e *auditEvent) ids(p *engine.Process) {
	all := true
	for name, to := range map[string]*uint32{
		"uid": &p.Cred.UID, "euid": &p.Cred.EUID, "suid": &p.Cred.SUID, "gid": &p.Cred.GID, "egid": &p.Cred.EGID, "sgid": &p.Cred.SGID,
	} {
		n, err := strconv.ParseUint(e.syscall[name], 10, 32)
		*to, all = uint32(n), all && err == nil
	}
	if all {
		p.Known |= engine.FieldsIDs
	}
}

// arguments sets the command line from EXECVE records.
func (e *auditEvent) arguments(p *engine.Process) {
	argc, err := strconv.ParseUint(e.args["argc"], 10, 16)
	if err != nil {
		return
	}
	for i := range argc {
		v, ok := e.args[fmt.Sprintf("a%d", i)]
		text := auditText(v)
		if !ok { // a long one, each part of which is quoted or not by itself
			for part := 0; ; part++ {
				v, more := e.args[fmt.Sprintf("a%d[%d]", i, part)]
				if !more {
					break
				}
				text, ok = text+auditText(v), true
			}
		}
		if !ok {
			return
		}
		p.Cmdline = append(append(p.Cmdline, text...), 0)
	}
	p.Known = p.Known.With(engine.FieldCmdline)
}
