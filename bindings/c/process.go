//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import "github.com/quark-linux/quark"

// groups lists the fields that each QUARK_F_ flag stands for.
var groups = [...]struct {
	fields quark.Fields
	flag   C.uint64_t
}{
	{1<<quark.FieldStart | 1<<quark.FieldPPID | 1<<quark.FieldPGID | 1<<quark.FieldSID | quark.FieldsIDs | 1<<quark.FieldCaps |
		1<<quark.FieldTTY | 1<<quark.FieldUTSNS | 1<<quark.FieldIPCNS | 1<<quark.FieldMntNS | 1<<quark.FieldNetNS, C.QUARK_F_PROC},
	{1 << quark.FieldExit, C.QUARK_F_EXIT},
	{1 << quark.FieldComm, C.QUARK_F_COMM},
	{1 << quark.FieldExe, C.QUARK_F_FILENAME},
	{1 << quark.FieldArgs, C.QUARK_F_CMDLINE},
	{1 << quark.FieldCwd, C.QUARK_F_CWD},
	{1 << quark.FieldCgroup, C.QUARK_F_CGROUP},
}

// fieldBits returns the fields as bits of QUARK_FIELD_: derived fields have the highest bits, so
// that new fields do not move them.
func fieldBits(f quark.Fields) C.uint64_t {
	return C.uint64_t(f&quark.AllFields | f>>quark.FieldEntryLeader&3<<62)
}

// writeProcess writes p to c, and its strings to the arena. c is nil if the arena is too small.
func (q *queue) writeProcess(r *arena, c *C.struct_quark_process, p *quark.Process) {
	var measured C.struct_quark_process
	if c == nil {
		c = &measured
	}
	known := p.Known
	*c = C.struct_quark_process{} // clear c first: Go would build and copy a full literal
	c.pid, c.as_of = C.uint32_t(p.PID), C.uint64_t(p.AsOf())
	c.fields_known, c.fields_cached, c.fields_truncated = fieldBits(known), fieldBits(p.Cached&known), fieldBits(p.Truncated&known)
	for i := range groups {
		g := &groups[i]
		if known&g.fields == g.fields {
			c.flags |= g.flag
		}
		if known&p.Cached&g.fields != 0 {
			c.flags_cached |= g.flag
		}
		if known&p.Truncated&g.fields != 0 {
			c.flags_truncated |= g.flag
		}
	}
	q.writeTask(c, p)
	setText(&c.comm[0], C.size_t(len(c.comm)), p.Comm)
	if known.Has(quark.FieldExe) {
		c.filename = r.text(p.Image.Exe)
	}
	if known.Has(quark.FieldArgs) {
		c.cmdline_len, c.cmdline = C.size_t(len(p.Image.Args)), r.bytes(p.Image.Args)
	}
	if known.Has(quark.FieldCwd) {
		c.cwd = r.text(p.Cwd)
	}
	if known.Has(quark.FieldCgroup) {
		c.cgroup = r.text(p.Cgroup)
	}
	if known.Has(quark.FieldExecPath) {
		c.exec_path = r.text(p.ExecPath)
	}
	if known.Has(quark.FieldEnviron) {
		c.environ_len, c.environ = C.size_t(len(p.Environ)), r.bytes(p.Environ)
	}
}

// writeTask writes the numeric members. Members of unknown fields stay 0.
func (q *queue) writeTask(c *C.struct_quark_process, p *quark.Process) {
	known := p.Known
	writeNumbers(c, p)
	if known.Has(quark.FieldStart) {
		c.proc_time_boot = C.uint64_t(q.Clock().Started(p).UnixNano())
	}
	if known.Has(quark.FieldExit) {
		c.exit_time_event = C.uint64_t(q.Clock().At(p.Exit.Time).UnixNano())
	}
	setNumber(known.Has(quark.FieldStart), &c.start_unit, p.StartUnit)
	setNumber(known.Has(quark.FieldTTY), &c.proc_tty_major, p.TTY.Major)
	setNumber(known.Has(quark.FieldTTY), &c.proc_tty_minor, p.TTY.Minor)
	x, file := &p.ExeFile, known.Has(quark.FieldExeFile)
	setNumber(file, &c.exe_ctime, x.Ctime)
	setNumber(file, &c.exe_dev_major, x.Major())
	setNumber(file, &c.exe_dev_minor, x.Minor())
	c.exe_removed, c.exited, c.inferred = flag(file && x.Removed), flag(p.Exited), flag(p.Inferred)
	setNumber(known.Has(quark.FieldEntryLeader), &c.proc_entry_leader_type, p.EntryType)
}

// setNumber writes v to a member of any type if v is known.
func setNumber[C, V ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](known bool, to *C, v V) {
	if known {
		*to = C(v)
	}
}

func device(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }

func flag(set bool) C.uint8_t {
	if set {
		return 1
	}
	return 0
}
