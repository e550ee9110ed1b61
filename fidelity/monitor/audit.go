package monitor

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/auditrecord"
)

// audit returns a monitor that decodes audit records, from auditd's log or a plugin, with rules for
// execve, execveat, fork, vfork, clone, clone3 and exit_group.
func audit() *Monitor {
	const tick = 10_000_000 // coarse clock at 100 Hz
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
			{engine.FieldExe, atExec | atExit, "exe="},
			{engine.FieldArgs, atExec, "EXECVE"},
			{engine.FieldCwd, atExec, "CWD"},
			{engine.FieldExit, atExit, "the argument of exit_group"},
		}, "clone3 does not show its flags, so threads are reported as processes"),
		Foreign: score.Tolerance{Early: auditdEarly(), Late: tick},
		Decoder: func() Decoder { return &auditDecoder{wall: truth.WallOffset()} },
	}
}

// auditDecoder collects the records of each event by its serial number. Records of several events
// may be interleaved.
type auditDecoder struct {
	wall int64
	open []*auditEvent
}

type auditEvent struct {
	serial  uint32
	at      int64
	syscall map[string]string
	args    auditrecord.Arguments
	cwd     string
	path    string // from the first PATH record
}

// auditOpen is the largest number of interleaved events.
const auditOpen = 64

func (d *auditDecoder) Decode(line []byte, _ uint64, to *Output) (err error) {
	r, ok := auditLine(line)
	if !ok {
		return fmt.Errorf("no record")
	}
	var ev *auditEvent
	for _, o := range d.open {
		if o.serial == r.Serial {
			ev = o
		}
	}
	switch {
	case r.Type == auditrecord.Syscall:
		if len(d.open) == auditOpen {
			err = d.close(d.open[0], to)
		}
		d.open = append(d.open, &auditEvent{serial: r.Serial, at: int64(r.Time)*1_000_000 - d.wall, syscall: auditMembers(&r)})
		return err
	case ev == nil:
	case r.Type == auditrecord.Execve:
		ev.args.Add(&r)
	case r.Type == auditrecord.Cwd:
		ev.cwd = auditText(auditMembers(&r)["cwd"])
	case r.Type == auditrecord.Path:
		if m := auditMembers(&r); m["item"] == "0" {
			ev.path = auditText(m["name"])
		}
	// A log has no EOE; PROCTITLE is the last record.
	case r.Type == auditrecord.EndOfEvent, r.Type == auditrecord.ProcTitle:
		return d.close(ev, to)
	}
	return nil
}

// auditTypes maps names of record types in a log.
var auditTypes = map[string]auditrecord.Type{
	"SYSCALL": auditrecord.Syscall, "PATH": auditrecord.Path, "CONFIG_CHANGE": auditrecord.ConfigChange, "CWD": auditrecord.Cwd,
	"EXECVE": auditrecord.Execve, "EOE": auditrecord.EndOfEvent, "PROCTITLE": auditrecord.ProcTitle, "ANOM_ABEND": auditrecord.Abend,
}

// auditLine parses a record of a log: "type=SYSCALL msg=audit(...): ...". "type=" and "msg=" are
// optional. The text after byte 0x1d is auditd's translation.
func auditLine(line []byte) (r auditrecord.Record, ok bool) {
	line, _, _ = bytes.Cut(line, []byte{0x1d})
	name, text, ok := bytes.Cut(bytes.TrimPrefix(line, []byte("type=")), []byte{' '})
	text = bytes.TrimPrefix(bytes.TrimRight(text, "\r "), []byte("msg="))
	ok = ok && r.Parse(auditTypes[string(name)], text) == nil
	return r, ok
}

func auditMembers(r *auditrecord.Record) map[string]string {
	members := make(map[string]string)
	for m := r.Members(); ; {
		name, value, ok := m.Next()
		if !ok {
			return members
		}
		members[string(name)] = string(value)
	}
}

// auditText returns a text, "" for none.
func auditText(v string) string {
	text, _ := auditrecord.AppendText(nil, []byte(v))
	return string(text)
}

// close reports a complete event.
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
		return fmt.Errorf("event %d: no pid", e.serial)
	}
	at := uint64(max(e.at, 0)) // 0 means before the boot
	result, _ := number("exit", 10)
	arch, _ := strconv.ParseUint(e.syscall["arch"], 16, 32)
	nr, _ := number("syscall", 10)
	call := auditrecord.ABI(arch).Call(nr)
	a0, _ := strconv.ParseUint(e.syscall["a0"], 16, 64)
	done := e.syscall["success"] == "yes"
	switch call {
	case auditrecord.Clone, auditrecord.Clone3, auditrecord.Fork:
		if thread := call == auditrecord.Clone && a0&unix.CLONE_THREAD != 0; thread || !done {
			break
		}
		_, p := to.add(engine.KindFork, result, at)
		e.ids(p)
		setParent(p, pid)
	case auditrecord.Exec, auditrecord.ExecAt:
		if !done {
			ev, p := to.add(engine.KindExecFailed, pid, at)
			e.setProcess(p)
			ev.Failed = engine.FailedExec{Errno: uint16(-int32(result)), Path: e.path, PathKnown: e.path != ""}
			break
		}
		_, p := to.add(engine.KindExec, pid, at)
		e.setProcess(p)
		if e.args.Complete() {
			p.Known, p.Image.Args = p.Known.With(engine.FieldArgs), e.args.Text
		}
		if e.cwd != "" {
			p.Known, p.Cwd = p.Known.With(engine.FieldCwd), auditdPath(e.cwd)
		}
	case auditrecord.ExitGroup:
		ev, p := to.add(engine.KindExit, pid, at)
		e.setProcess(p)
		setExit(ev, int32(a0&0xff)<<8)
	}
	return nil
}

// setProcess sets the fields of the caller from a SYSCALL record.
func (e *auditEvent) setProcess(p *engine.Process) {
	e.ids(p)
	if n, err := strconv.ParseUint(e.syscall["ppid"], 10, 32); err == nil {
		setParent(p, uint32(n))
	}
	if v, ok := e.syscall["comm"]; ok {
		setComm(p, auditText(v))
	}
	if v, ok := e.syscall["exe"]; ok {
		p.Known, p.Image.Exe = p.Known.With(engine.FieldExe), auditdPath(auditText(v))
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
