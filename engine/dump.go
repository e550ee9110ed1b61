package engine

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// Dump writes the event as text in the shape of quark's manual: a line
// "->PID (EVENTS)", then a line "  TAG<TAB>key=value ..." for each group of
// attributes. An unknown value is "?", a value that was cut ends in "...". The line
// CACH names the fields that are cached.
// Bytes that do not print are escaped as in Go strings.
func (e *Event) Dump(w io.Writer) error {
	_, err := w.Write(e.AppendDump(nil))
	return err
}

// AppendDump appends what Dump writes to b.
func (e *Event) AppendDump(b []byte) []byte { return e.appendDump(b, ofDump) }

// appendDump is AppendDump where CACH names the cached ones of some fields.
func (e *Event) appendDump(b []byte, of Fields) []byte {
	pid := uint32(0)
	if e.Process != nil {
		pid = e.Process.PID
	}
	b = fmt.Appendf(b, "->%d", pid)
	if e.Events != 0 {
		b = fmt.Appendf(b, " (%s)", e.Events)
	}
	b = append(b, '\n')
	if e.CPU != AllCPUs {
		b = fmt.Appendf(b, "  CPU\tcpu=%d\n", e.CPU)
	}
	if e.Thread {
		b = fmt.Appendf(b, "  THRD\ttid=%d\n", e.TID)
	}
	if e.Events.Has(EventIDChange) {
		b = fmt.Appendf(b, "  IDCH\tid_change=%s\n", e.IDChange)
	}
	if e.Events.Has(EventPtrace) {
		b = fmt.Appendf(b, "  PTRA\ttracer_pid=%d\n", e.Tracer.PID)
	}
	if e.Events.Has(EventExecFailed) {
		b = e.Failed.appendDump(b)
	}
	if len(e.Parts) > 1 {
		b = append(b, "  PART\t"...)
		for i, p := range e.Parts {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendUint(append(append(b, p.Kind.String()...), '='), p.Time, 10)
		}
		b = append(b, '\n')
	}
	if e.Events.Has(EventGap) {
		return appendGap(b, &e.Gap)
	}
	if e.Process != nil {
		b = e.Process.appendDump(b, of)
	}
	return b
}

func appendGap(b []byte, g *Gap) []byte {
	b = fmt.Appendf(b, "  LOST\tcause=%s lost=%d from=%d to=%d cpu=", g.Cause, g.Count, g.From, g.To)
	if g.CPU == AllCPUs {
		return append(b, "all\n"...)
	}
	return append(strconv.AppendUint(b, uint64(g.CPU), 10), '\n')
}

// ofDump are the fields of a dump that has no leaders.
const ofDump = AllFields | 1<<FieldPrivileges

// AppendDump appends the lines of the process alone.
func (p *Process) AppendDump(b []byte) []byte { return p.appendDump(b, ofDump) }

func (p *Process) appendDump(b []byte, of Fields) []byte {
	d := dumper{b: b, p: p}
	d.line("COMM").text("comm", FieldComm, p.Comm)
	d.line("CMDL").list("args", FieldArgs, p.Args)
	if p.Known.Has(FieldEnviron) {
		d.line("ENVI").list("environ", FieldEnviron, p.Environ)
	}
	d.line("PROC").num("ppid", FieldPPID, p.PPID).num("parent_signal", FieldParentSignal, p.ParentSignal)
	d.line("PROC").num("uid", FieldUIDs, p.Cred.UID).num("gid", FieldGIDs, p.Cred.GID).
		num("suid", FieldSUID, p.Cred.SUID).num("sgid", FieldSGID, p.Cred.SGID).
		num("euid", FieldUIDs, p.Cred.EUID).num("egid", FieldGIDs, p.Cred.EGID).
		num("pgid", FieldPGID, p.PGID).num("sid", FieldSID, p.SID)
	d.line("PROC").hex("cap_inheritable", p.Caps.Inheritable).hex("cap_permitted", p.Caps.Permitted).
		hex("cap_effective", p.Caps.Effective)
	d.line("PROC").hex("cap_bset", p.Caps.Bounding).hex("cap_ambient", p.Caps.Ambient)
	d.line("PROC").big("start_boottime", FieldStart, p.Start).num("tty_major", FieldTTY, p.TTY.Major).
		num("tty_minor", FieldTTY, p.TTY.Minor)
	d.line("PROC").num("uts_inonum", FieldUTSNS, p.NS.UTS).num("ipc_inonum", FieldIPCNS, p.NS.IPC)
	d.line("PROC").num("mnt_inonum", FieldMntNS, p.NS.Mnt).num("net_inonum", FieldNetNS, p.NS.Net)
	d.line("PROC").num("user_inonum", FieldUserNS, p.NS.User).num("cgroup_inonum", FieldCgroupNS, p.NS.Cgroup).
		num("time_inonum", FieldTimeNS, p.NS.Time)
	d.line("PROC").num("pid_inonum", FieldPIDNS, p.NS.PID).num("ns_pid", FieldPIDNS, p.NSPID)
	d.line("PROC").login("login_uid", p.Login.UID).login("audit_session", p.Login.Session)
	d.line("CWD").text("cwd", FieldCwd, p.Cwd)
	d.line("EXE").text("exe", FieldExe, p.Exe).text("exec_path", FieldExecPath, p.ExecPath).executable()
	if p.Known.Has(FieldPrivileges) && p.Privileges != 0 {
		d.line("PRIV").key("privileges", true)
		d.b = append(d.b, p.Privileges.String()...)
	}
	d.line("CGRP").text("cgroup", FieldCgroup, p.Cgroup)
	if c, _ := p.Container(); c.ID != "" {
		d.line("CONT").container(&c)
	}
	if p.Exited || p.Known.Has(FieldExit) { // the latter alone: a thread
		d.line("EXIT").exit()
	}
	if u := p.Usage; u != nil {
		d.line("USED").big("user_time", FieldCPUTime, u.UserTime).big("system_time", FieldCPUTime, u.SystemTime).
			big("peak_rss", FieldPeakRSS, u.PeakRSS)
		d.line("USED").big("rchar", FieldIO, u.RChar).big("wchar", FieldIO, u.WChar).
			big("read_bytes", FieldIO, u.ReadBytes).big("write_bytes", FieldIO, u.WriteBytes)
	}
	if b := &p.Birth; b.Known != 0 {
		d.line("BRTH").number("parent_pid", b.Known.Has(FieldPPID), uint64(b.Parent.PID)).
			number("parent_start", b.Known.Has(FieldStart), b.Parent.Start).num("parent_tid", FieldBirthParentTID, p.ParentTID)
	}
	if cached := p.Cached & of; cached != 0 {
		d.line("CACH")
		d.b = append(append(d.b, "\tcached="...), cached.String()...)
	}
	return append(d.b, '\n')
}

// dumper appends key=value pairs, "?" for what the process does not know.
type dumper struct {
	b   []byte
	p   *Process
	sep byte // before the next pair: a tab after a tag, else a blank
}

func (d *dumper) line(tag string) *dumper {
	if n := len(d.b); n > 0 && d.b[n-1] != '\n' {
		d.b = append(d.b, '\n')
	}
	d.b = append(append(d.b, "  "...), tag...)
	d.sep = '\t'
	return d
}

// key starts a pair and returns known, whether its value follows.
func (d *dumper) key(name string, known bool) bool {
	d.b = append(append(append(d.b, d.sep), name...), '=')
	d.sep = ' '
	if !known {
		d.b = append(d.b, '?')
	}
	return known
}

func (d *dumper) number(name string, known bool, v uint64) *dumper {
	if d.key(name, known) {
		d.b = strconv.AppendUint(d.b, v, 10)
	}
	return d
}

func (d *dumper) big(name string, f Field, v uint64) *dumper {
	return d.number(name, d.p.Known.Has(f), v)
}

func (d *dumper) num(name string, f Field, v uint32) *dumper { return d.big(name, f, uint64(v)) }

func (d *dumper) login(name string, v uint32) *dumper {
	if v != LoginUnset || !d.p.Known.Has(FieldLogin) {
		return d.num(name, FieldLogin, v)
	}
	d.key(name, true)
	d.b = append(d.b, "unset"...)
	return d
}

func (d *dumper) hex(name string, v uint64) *dumper {
	if d.key(name, d.p.Known.Has(FieldCaps)) {
		d.b = strconv.AppendUint(append(d.b, "0x"...), v, 16)
	}
	return d
}

func (d *dumper) text(name string, f Field, v string) *dumper {
	if d.key(name, d.p.Known.Has(f)) {
		d.b = appendEscaped(d.b, v)
		d.cut(f)
	}
	return d
}

func (d *dumper) cut(f Field) {
	if d.p.Truncated.Has(f) {
		d.b = append(d.b, "..."...)
	}
}

// list appends texts that NULs end.
func (d *dumper) list(name string, f Field, texts []byte) {
	if !d.key(name, d.p.Known.Has(f)) {
		return
	}
	d.b = append(d.b, '[')
	sep := " "
	for text := range parts(texts) {
		d.b = appendEscaped(append(d.b, sep...), string(text))
		sep = ", "
	}
	d.cut(f)
	d.b = append(d.b, " ]"...)
}

func (d *dumper) executable() *dumper {
	x := &d.p.ExeFile
	if !d.key("exe_mode", d.p.Known.Has(FieldExeFile)) {
		return d
	}
	d.b = strconv.AppendUint(append(d.b, '0'), uint64(x.Mode), 8)
	d.num("exe_uid", FieldExeFile, x.UID).num("exe_gid", FieldExeFile, x.GID)
	d.b = fmt.Appendf(d.b, " exe_dev=%d:%d", x.Major(), x.Minor())
	d.big("exe_inode", FieldExeFile, x.Inode)
	changed := time.Unix(0, x.Ctime)
	d.b = fmt.Appendf(d.b, " exe_ctime=%d.%09d", changed.Unix(), changed.Nanosecond())
	if x.Removed {
		d.b = append(d.b, " exe_removed=1"...)
	}
	return d
}

func (d *dumper) container(c *Container) {
	for _, pair := range [...]struct{ key, value string }{
		{"container", c.ID}, {"runtime", c.Runtime}, {"pod", c.Pod}, {"unit", c.Unit},
	} {
		if pair.value != "" && d.key(pair.key, true) {
			d.b = appendEscaped(d.b, pair.value)
		}
	}
}

func (d *dumper) exit() {
	x := &d.p.Task.Exit
	d.big("exit_code", FieldExit, uint64(x.Code())).big("exit_signal", FieldExit, uint64(x.Signal())).
		big("exit_time", FieldExit, x.Time)
	if d.p.Known.Has(FieldExit) && x.CoreDumped() {
		d.b = append(d.b, " core_dumped=1"...)
	}
	if d.p.Inferred {
		d.b = append(d.b, " inferred=1"...)
	}
}

// appendEscaped quotes as Go does, without the quotation marks.
func appendEscaped(b []byte, s string) []byte {
	n := len(b)
	b = strconv.AppendQuote(b, s)
	return append(b[:n], b[n+1:len(b)-1]...)
}
