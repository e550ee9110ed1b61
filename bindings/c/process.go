//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import "github.com/quark-linux/quark"

// groups are the fields of each flag.
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

// bits returns the fields as QUARK_FIELD_ has them: those that the engine derives are the highest,
// so that the others can grow.
func bits(f quark.Fields) C.uint64_t {
	return C.uint64_t(f&quark.AllFields | f>>quark.FieldEntryLeader&3<<62)
}

// layProcess writes p to c, which is nil if there is no room for it, and its texts behind what is
// in the room already.
func (q *queue) layProcess(r *room, c *C.struct_quark_process, p *quark.Process) {
	var measured C.struct_quark_process
	if c == nil {
		c = &measured
	}
	known := p.Known
	*c = C.struct_quark_process{} // a literal with all would be built elsewhere and copied
	c.pid, c.as_of = C.uint32_t(p.PID), C.uint64_t(p.AsOf())
	c.fields_known, c.fields_cached, c.fields_truncated = bits(known), bits(p.Cached&known), bits(p.Truncated&known)
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
	q.layTask(c, p)
	layEngine(c, p)
	setText(&c.comm[0], C.size_t(len(c.comm)), p.Comm)
	if known.Has(quark.FieldExe) {
		c.filename = r.text(p.Exe)
	}
	if known.Has(quark.FieldArgs) {
		c.cmdline_len, c.cmdline = C.size_t(len(p.Args)), r.bytes(p.Args)
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

// layTask writes what sources report, texts aside. Members of unknown fields stay 0.
func (q *queue) layTask(c *C.struct_quark_process, p *quark.Process) {
	known := p.Known
	if known.Has(quark.FieldStart) {
		c.proc_time_boot = C.uint64_t(q.Clock().Started(p).UnixNano())
		c.start_boottime, c.start_unit = C.uint64_t(p.Start), C.uint64_t(p.StartUnit)
	}
	set := func(f quark.Field, to *C.uint32_t, value uint32) {
		if known.Has(f) {
			*to = C.uint32_t(value)
		}
	}
	set(quark.FieldPPID, &c.proc_ppid, p.PPID)
	set(quark.FieldPGID, &c.proc_pgid, p.PGID)
	set(quark.FieldSID, &c.proc_sid, p.SID)
	set(quark.FieldUIDs, &c.proc_uid, p.Cred.UID)
	set(quark.FieldUIDs, &c.proc_euid, p.Cred.EUID)
	set(quark.FieldSUID, &c.proc_suid, p.Cred.SUID)
	set(quark.FieldGIDs, &c.proc_gid, p.Cred.GID)
	set(quark.FieldGIDs, &c.proc_egid, p.Cred.EGID)
	set(quark.FieldSGID, &c.proc_sgid, p.Cred.SGID)
	set(quark.FieldTTY, &c.proc_tty_major, p.TTY.Major)
	set(quark.FieldTTY, &c.proc_tty_minor, p.TTY.Minor)
	set(quark.FieldUTSNS, &c.proc_uts_inonum, p.NS.UTS)
	set(quark.FieldIPCNS, &c.proc_ipc_inonum, p.NS.IPC)
	set(quark.FieldMntNS, &c.proc_mnt_inonum, p.NS.Mnt)
	set(quark.FieldNetNS, &c.proc_net_inonum, p.NS.Net)
	set(quark.FieldPIDNS, &c.pid_inonum, p.NS.PID)
	set(quark.FieldPIDNS, &c.ns_pid, p.NSPID)
	set(quark.FieldUserNS, &c.user_inonum, p.NS.User)
	set(quark.FieldCgroupNS, &c.cgroup_inonum, p.NS.Cgroup)
	set(quark.FieldTimeNS, &c.time_inonum, p.NS.Time)
	set(quark.FieldParentSignal, &c.parent_signal, p.ParentSignal)
	set(quark.FieldBirthParentTID, &c.birth_parent_tid, p.ParentTID)
	set(quark.FieldLogin, &c.login_uid, p.Login.UID)
	set(quark.FieldLogin, &c.login_session, p.Login.Session)
	if known.Has(quark.FieldCaps) {
		c.proc_cap_inheritable, c.proc_cap_permitted = C.uint64_t(p.Caps.Inheritable), C.uint64_t(p.Caps.Permitted)
		c.proc_cap_effective, c.proc_cap_bset = C.uint64_t(p.Caps.Effective), C.uint64_t(p.Caps.Bounding)
		c.proc_cap_ambient = C.uint64_t(p.Caps.Ambient)
	}
	if known.Has(quark.FieldExit) {
		c.exit_code, c.wait_status = C.int32_t(p.Exit.Code()), C.int32_t(p.Exit.WaitStatus)
		c.exit_time, c.exit_time_event = C.uint64_t(p.Exit.Time), C.uint64_t(q.Clock().At(p.Exit.Time).UnixNano())
	}
	if x := &p.ExeFile; known.Has(quark.FieldExeFile) {
		c.exe_inode, c.exe_ctime = C.uint64_t(x.Inode), C.int64_t(x.Ctime)
		c.exe_dev_major, c.exe_dev_minor = C.uint32_t(x.Major()), C.uint32_t(x.Minor())
		c.exe_uid, c.exe_gid, c.exe_mode = C.uint32_t(x.UID), C.uint32_t(x.GID), C.uint32_t(x.Mode)
		c.exe_removed = flag(x.Removed)
	}
	layUsage(c, known, p.Usage)
}

func layUsage(c *C.struct_quark_process, known quark.Fields, u *quark.Usage) {
	if u == nil {
		return
	}
	if known.Has(quark.FieldCPUTime) {
		c.user_time, c.system_time = C.uint64_t(u.UserTime), C.uint64_t(u.SystemTime)
	}
	if known.Has(quark.FieldPeakRSS) {
		c.peak_rss = C.uint64_t(u.PeakRSS)
	}
	if known.Has(quark.FieldIO) {
		c.rchar, c.wchar = C.uint64_t(u.RChar), C.uint64_t(u.WChar)
		c.read_bytes, c.write_bytes = C.uint64_t(u.ReadBytes), C.uint64_t(u.WriteBytes)
	}
}

// layEngine writes what the engine knows beside the fields, or has derived.
func layEngine(c *C.struct_quark_process, p *quark.Process) {
	c.exited, c.inferred = flag(p.Exited), flag(p.Inferred)
	if p.Birth.Known.Has(quark.FieldPPID) {
		c.birth_parent_pid = C.uint32_t(p.Birth.Parent.PID)
	}
	if p.Birth.Known.Has(quark.FieldStart) {
		c.birth_parent_start = C.uint64_t(p.Birth.Parent.Start)
	}
	if p.Known.Has(quark.FieldEntryLeader) {
		c.proc_entry_leader_type, c.proc_entry_leader = C.uint32_t(p.EntryType), C.uint32_t(p.EntryLeader.PID)
		c.entry_leader_start = C.uint64_t(p.EntryLeader.Start)
	}
	if p.Known.Has(quark.FieldPrivileges) {
		c.privileges = C.uint8_t(p.Privileges)
	}
}

func flag(set bool) C.uint8_t {
	if set {
		return 1
	}
	return 0
}
