package kprobe

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/cputime"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// numberSource describes where fields come from: the slots of their values, and the members in the
// kernel.
type numberSource struct {
	fields   engine.Fields
	via      string
	from, to slot
	// set sets the fields in ev. It is nil if they need more than one record.
	set func(ev *engine.RawEvent, v *values)
}

const (
	viaCred = "task.real_cred"
	viaNS   = " (at EXIT only if the leader ended last)"
	viaUse  = " (unknown while threads other than the leader and the last to exit are not released)"
	viaIO   = " (unknown if threads were released and children waited for)"
)

// numberSources are the fields that the first probe of a set fetches.
var numberSources = []numberSource{
	{engine.FieldStart.Set(), "task.group_leader.start_boottime", slotStart, slotStart,
		func(ev *engine.RawEvent, v *values) { ev.Task.Start, ev.Task.StartUnit = v.number(slotStart), 1 }},
	{engine.FieldPPID.Set(), "task.group_leader.real_parent.tgid", slotPPID, slotPPID,
		func(ev *engine.RawEvent, v *values) { ev.Task.PPID = v.u32(slotPPID) }},
	{engine.FieldPGID.Set(), "task.signal.pids[PGID]", slotPGID, slotPGID,
		func(ev *engine.RawEvent, v *values) { ev.Task.PGID = v.u32(slotPGID) }},
	{engine.FieldSID.Set(), "task.signal.pids[SID]", slotSID, slotSID,
		func(ev *engine.RawEvent, v *values) { ev.Task.SID = v.u32(slotSID) }},
	{engine.FieldsIDs, viaCred, slotUID, slotEGID,
		func(ev *engine.RawEvent, v *values) { ev.Task.Cred = v.credentials(slotUID) }},
	{engine.FieldCaps.Set(), viaCred, slotCapInheritable, slotCapAmbient,
		func(ev *engine.RawEvent, v *values) { ev.Task.Caps = v.capabilities(slotCapInheritable) }},
	{engine.FieldTTY.Set(), "task.signal.tty", slotTTY, slotTTYIndex, setTTY},
	{engine.FieldUTSNS.Set(), "task.nsproxy.uts_ns" + viaNS, slotUTSNS, slotUTSNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.UTS = v.u32(slotUTSNS) }},
	{engine.FieldIPCNS.Set(), "task.nsproxy.ipc_ns" + viaNS, slotIPCNS, slotIPCNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.IPC = v.u32(slotIPCNS) }},
	{engine.FieldMntNS.Set(), "task.nsproxy.mnt_ns" + viaNS, slotMntNS, slotMntNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.Mnt = v.u32(slotMntNS) }},
	{engine.FieldNetNS.Set(), "task.nsproxy.net_ns" + viaNS, slotNetNS, slotNetNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.Net = v.u32(slotNetNS) }},
	{engine.FieldParentSignal.Set(), "task.group_leader.exit_signal", slotLeaderSignal, slotLeaderSignal,
		func(ev *engine.RawEvent, v *values) { ev.Task.ParentSignal = v.u32(slotLeaderSignal) }},
	{engine.FieldBirthParentTID.Set(), "task.real_parent.pid", slotParentTID, slotParentTID,
		func(ev *engine.RawEvent, v *values) { ev.Task.ParentTID = v.u32(slotParentTID) }},
	{engine.FieldLogin.Set(), "task.loginuid and task.sessionid", slotLoginUID, slotAuditSession,
		func(ev *engine.RawEvent, v *values) {
			ev.Task.Login = engine.Login{UID: v.u32(slotLoginUID), Session: v.u32(slotAuditSession)}
		}},
	{engine.FieldNoNewPrivs.Set(), "task.atomic_flags", slotAtomicFlags, slotAtomicFlags,
		func(ev *engine.RawEvent, v *values) { ev.Task.NoNewPrivs = v.u32(slotAtomicFlags) & 1 }},
	{engine.FieldSeccomp.Set(), "task.seccomp.mode", slotSeccomp, slotSeccomp,
		func(ev *engine.RawEvent, v *values) {
			ev.Task.Seccomp = min(v.u32(slotSeccomp), unix.SECCOMP_MODE_FILTER)
		}},
	{engine.FieldExeFile.Set(), "task.mm.exe_file.f_inode", slotExeBefore, slotExeCtimeNs, setExecutable},
	{engine.FieldStdio.Set(), "task.files.fdt.fd, f_inode of the first three", slotStdio, slotStdio + streams*streamSlots - 1, setStdio},
	{0, "", slotBeforeUID, slotBeforeUID + (slotEGID - slotUID), setBefore},
	{engine.FieldUserNS.Set(), viaCred + ".user_ns", slotUserNS, slotUserNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.User = v.u32(slotUserNS) }},
	{engine.FieldCgroupNS.Set(), "task.nsproxy.cgroup_ns" + viaNS, slotCgroupNS, slotCgroupNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.Cgroup = v.u32(slotCgroupNS) }},
	{engine.FieldTimeNS.Set(), "task.nsproxy.time_ns" + viaNS, slotTimeNS, slotTimeNS,
		func(ev *engine.RawEvent, v *values) { ev.Task.NS.Time = v.u32(slotTimeNS) }},
	{engine.FieldPIDNS.Set(), fmt.Sprintf("task.group_leader.thread_pid.numbers (unknown more than %d below the initial one)", pidLevels),
		slotPIDLevel, slotPIDs + 2*pidLevels - 1, setPIDNamespace},
	{engine.FieldComm.Set(), "task.comm", slotComm, slotComm2,
		func(ev *engine.RawEvent, v *values) { v.setComm(ev, slotComm) }},
	{engine.FieldCPUTime.Set(), "task.se.sum_exec_runtime, task.utime and stime, divided as getrusage(2) does" + viaUse, slotThreads, slotPeakRSS, setTimes},
	{engine.FieldPeakRSS.Set(), "task.signal.maxrss" + viaUse, slotThreads, slotPeakRSS,
		func(ev *engine.RawEvent, v *values) { ev.Usage.PeakRSS = v.number(slotPeakRSS) * pageSize }},
	{engine.FieldIO.Set(), "task.ioac" + viaUse + viaIO, slotThreads, slotChildRSS, setIO},
	{engine.FieldExit.Set(), "task.signal.group_exit_code or task.group_leader.exit_code", slotGroupCode, slotOwnCode, nil},
}

func setPIDNamespace(ev *engine.RawEvent, v *values) {
	t := &ev.Task
	t.NS.PID, t.NSPID = proctext.InitialPIDNamespace, v.u32(slotTGID)
	if level := v.number(slotPIDLevel); level > 0 && level <= pidLevels {
		own := slotPIDs + 2*slot(level-1)
		t.NSPID, t.NS.PID = v.u32(own), v.u32(own+1)
	}
}

func setTTY(ev *engine.RawEvent, v *values) {
	switch v.number(slotTTY) {
	case 0: // no terminal
	case v.number(slotTTYAfter):
		ev.Task.TTY = engine.TTY{Major: v.u32(slotTTYMajor), Minor: v.u32(slotTTYMinorStart) + v.u32(slotTTYIndex)}
	default: // the session's leader can take the terminal from all processes during the reads
		ev.Task.Known &^= engine.FieldTTY.Set()
	}
}

// setBefore sets the ids with which the file of an image was opened. An exec keeps the real ids: if
// they differ, another task has opened the file, as binfmt_misc may do.
func setBefore(ev *engine.RawEvent, v *values) {
	before, now := v.credentials(slotBeforeUID), v.credentials(slotUID)
	ev.Before.EUID, ev.Before.EGID = before.EUID, before.EGID
	ev.Before.Known = before.UID == now.UID && before.GID == now.GID
}

func setExecutable(ev *engine.RawEvent, v *values) {
	const queried = 1 << 31 // a flag in i_ctime_nsec since Linux 6.13
	mode := uint16(v.number(slotExeMode))
	changed := (v.u32(slotExeBefore)^v.u32(slotExeCtimeNs))&^queried != 0
	numbered := !v.slots.has(slotExeMagic) || v.number(slotExeMagic) != unix.OVERLAYFS_SUPER_MAGIC
	if mode == 0 || changed || !numbered { // 0 means that the kernel could not read it
		ev.Task.Known &^= engine.FieldExeFile.Set()
		return
	}
	ev.Task.ExeFile = engine.ExeFile{
		Inode: v.number(slotExeInode), Ctime: int64(v.number(slotExeCtime))*1e9 + int64(v.u32(slotExeCtimeNs)&^queried),
		Device: source.Device(v.u32(slotExeDevice)),
		UID:    v.u32(slotExeUID), GID: v.u32(slotExeGID), Mode: mode, Removed: v.number(slotExeLinks) == 0,
	}
}

func setStdio(ev *engine.RawEvent, v *values) {
	for n := range ev.Task.Stdio {
		s := slotStdio + slot(n)*streamSlots
		var f source.File
		if v.number(s+streamFile) != 0 {
			f = source.File{Inode: v.number(s + streamInode), Device: v.u32(s + streamDevice), Rdev: v.u32(s + streamRdev),
				Magic: v.u32(s + streamMagic), Mode: uint16(v.number(s + streamMode)), Family: uint16(v.number(s + streamFamily)),
				Unlisted: v.number(s+streamDentry) == v.number(s+streamParent)}
			if f.Mode == 0 { // the kernel could not read it
				ev.Task.Known &^= engine.FieldStdio.Set()
				return
			}
		}
		ev.Task.Stdio[n] = f.Stream()
	}
}

var pageSize = uint64(os.Getpagesize())

// used returns the usage of all threads of a group. n is the index of the usage.
func (v *values) used(n slot) uint64 { return v.number(slotReleasedUse+n) + v.living(n) }

// living returns the usage of the threads that are not released. If there are two, the second is
// the leader.
func (v *values) living(n slot) uint64 {
	sum := v.number(slotOwnUse + n)
	if v.u32(slotThreads) > 1 {
		sum += v.number(slotLeaderUse + n)
	}
	return sum
}

func setTimes(ev *engine.RawEvent, v *values) {
	ev.Usage.UserTime, ev.Usage.SystemTime = cputime.Times{
		Run: v.used(useRun), User: v.used(useUser), System: v.used(useSystem),
		ShownUser: v.number(slotShownTimes), ShownSystem: v.number(slotShownTimes + 1),
	}.Divide()
}

// setIO excludes the children that were waited for. The kernel adds their I/O to the I/O of
// released threads, but counts the CPU time of the two separately. It may count no memory for a
// small child, and no time if the clock is coarse.
func setIO(ev *engine.RawEvent, v *values) {
	used := v.used
	if v.number(slotChildTimes)|v.number(slotChildTimes+1)|v.number(slotChildRSS) != 0 {
		if v.number(slotReleasedUse+useRun) != 0 {
			ev.Task.Known &^= engine.FieldIO.Set()
			return
		}
		used = v.living
	}
	u := &ev.Usage
	u.RChar, u.WChar, u.ReadBytes, u.WriteBytes = used(useRChar), used(useWChar), used(useReadBytes), used(useWriteBytes)
}

// text is a field with probes of its own.
type text struct {
	field engine.Field
	name  string // of the probes
	// via is the place of the text in the kernel, for a cgroup see cgroupVia. rest is where the
	// part comes from that is too long for the probes.
	via, rest string
	base      slot // the first slot of the text
	probes    func(b *builder) [][]fetch
}

var (
	filename = &text{engine.FieldExe, "exe", "task.mm.exe_file.f_path",
		"the front of longer ones from /proc/PID/exe if the process still lives", slotExe, (*builder).exeProbes}
	cwd = &text{engine.FieldCwd, "cwd", "task.fs.pwd",
		"the front of longer ones from /proc/PID/cwd if the process still lives", slotCwd, (*builder).cwdProbes}
	cgroup = &text{engine.FieldCgroup, "cgroup", "",
		"the front of longer ones from /proc/PID/cgroup if the process still lives", slotCgroup, (*builder).cgroupProbes}
	cmdline = &text{engine.FieldArgs, "argv", "task.mm.arg_start",
		"the end of longer ones from /proc/PID/cmdline if the process still lives", slotArgv, (*builder).argvProbes}
	// execPath is the kernel's copy of a path, filename->name. It uses the slots of arguments.
	execPath = &text{engine.FieldExe, "path", "", "", slotArgv,
		func(b *builder) [][]fetch { return b.chunkProbes(secondArgument.at(0)) }}
)
