package kprobe

import (
	"strings"

	"github.com/quark-linux/quark/internal/proctext"
)

// offsets are the offsets of members in the kernel's types, see btfhub.Offsets.
type offsets interface {
	Bytes(name string) (off uint32, ok bool)
	Value(name string) (value int64, ok bool)
}

// kernel describes the kernel for which fetch arguments are built.
type kernel struct {
	offsets offsets
	reads   int  // the largest number of nested reads
	singles bool // the kernel accepts no arrays
	warns   bool // the kernel warns of reads at invalid addresses
	cgroups proctext.Hierarchy
	threads bool // single threads are reported
}

// builder collects the fetch arguments of one probe. It skips arguments that need a member which
// the kernel's types lack.
type builder struct {
	kernel
	args  []fetch
	lacks string // the last member that the types lack
	of    expr   // the task, if it is not the first argument
}

// task returns the task of the event.
func (b *builder) task() expr {
	if b.of.missing() {
		return firstArgument
	}
	return b.of
}

// off returns the offset of a member, such as "task_struct.mm", or the sum of the offsets of
// several members that are joined with "+".
func (b *builder) off(members string) (sum int, ok bool) {
	for m := range strings.SplitSeq(members, "+") {
		off, ok := b.offsets.Bytes(m)
		if !ok {
			b.lacks = m
			return 0, false
		}
		sum += int(off)
	}
	return sum, true
}

// follow returns the value at the end of a chain of members. All members except the last are
// pointers. There is no value if the kernel's types lack a member.
func (b *builder) follow(e expr, chain ...string) expr {
	for _, members := range chain {
		if e.missing() {
			break
		}
		off, ok := b.off(members)
		if !ok {
			return expr{}
		}
		e = e.at(off)
	}
	return e
}

// add appends a fetch argument, unless e has no value.
func (b *builder) add(s slot, t fetchType, e expr) { b.addArray(s, t, e, 0) }

// addArray appends a fetch argument for an array of values. If the kernel accepts no arrays, it
// appends one for each value.
func (b *builder) addArray(s slot, t fetchType, e expr, count int) {
	switch {
	case e.missing():
	case count == 0 || !b.singles:
		b.args = append(b.args, fetch{slot: s, value: e, typ: t, count: count})
	default:
		for n := range count {
			b.args = append(b.args, fetch{slot: s + slot(n), value: e.element(n, t.size), typ: t})
		}
	}
}

// addChunk appends a chunk of text, as one array of words if the kernel accepts arrays.
func (b *builder) addChunk(n int, text expr) {
	s, at := slotArgv+slot(n), text.at(n*chunkSize+argvShift)
	if !b.singles {
		b.addArray(s, typeX64, at, maxArray)
		return
	}
	for word := range maxArray {
		b.args = append(b.args, fetch{slot: s, value: at.element(word, typeX64.size), typ: typeX64, word: word + 1})
	}
}

// part returns a builder for another probe of the same function.
func (b *builder) part(args ...fetch) builder {
	return builder{kernel: b.kernel, args: args}
}

// addMember fetches the value at the end of a chain of members.
func (b *builder) addMember(s slot, t fetchType, e expr, chain ...string) {
	b.add(s, t, b.follow(e, chain...))
}

// addRow fetches members of one struct into consecutive slots. If the members are adjacent it
// fetches them as one array, which costs the kernel less.
func (b *builder) addRow(s slot, t fetchType, e expr, members ...string) {
	first, inRow := b.off(members[0])
	for i, m := range members {
		off, ok := b.off(m)
		inRow = inRow && ok && off == first+i*t.size
	}
	if inRow {
		b.addArray(s, t, e.at(first), len(members))
		return
	}
	for i, m := range members {
		b.addMember(s+slot(i), t, e, m)
	}
}

// addTask fetches the fields of the event's task. Ids, start and parent of the group identify the
// process. The other fields come from state, which is the task or its group's leader.
func (b *builder) addTask(state expr) { b.addState(state, b.follow(state, "task_struct.nsproxy")) }

// addState is like addTask with the namespaces of nsproxy.
func (b *builder) addState(state, nsproxy expr) {
	b.addIdentity()
	leader := b.follow(b.task(), "task_struct.group_leader")
	b.addMember(slotPPID, typeU32, leader, "task_struct.real_parent", "task_struct.tgid")
	b.addMember(slotLeaderSignal, typeS32, leader, "task_struct.exit_signal")
	b.addCredentials(b.follow(state, "task_struct.real_cred"), slotUID, slotCapInheritable)
	b.addRow(slotLoginUID, typeU32, state, "task_struct.loginuid", "task_struct.sessionid")
	b.addMember(slotAtomicFlags, typeX64, state, "task_struct.atomic_flags")
	b.addMember(slotSeccomp, typeU32, state, "task_struct.seccomp.mode")
	b.addMember(slotUserNS, typeU32, state, "task_struct.real_cred", "cred.user_ns", "user_namespace.ns.inum")
	b.addNamespaces(nsproxy)
	b.addPIDNamespace(leader)
	b.addSignal()
}

// addExecutable fetches the stat(2) values of the image's file. A change of the inode during the
// reads changes its ctime.
func (b *builder) addExecutable() {
	exe := b.follow(firstArgument, "task_struct.mm", "mm_struct.exe_file")
	// The kernel opens the file for the task that executes, before it changes the ids.
	b.addIDs(b.follow(exe, "file.f_cred"), slotBeforeUID)
	inode := b.follow(exe, "file.f_inode")
	if !b.addMagic(inode) {
		return
	}
	b.addMember(slotExeBefore, typeU32, inode, "inode.i_ctime.tv_nsec")
	b.addMember(slotExeMode, typeU32, inode, "inode.i_mode")
	b.addRow(slotExeUID, typeU32, inode, "inode.i_uid", "inode.i_gid")
	b.addMember(slotExeDevice, typeU32, inode, "inode.i_sb", "super_block.s_dev")
	b.addMember(slotExeInode, typeX64, inode, "inode.i_ino")
	b.addMember(slotExeLinks, typeU32, inode, "inode.i_nlink")
	b.addMember(slotExeCtime, typeX64, inode, "inode.i_ctime.tv_sec")
	b.addMember(slotExeCtimeNs, typeU32, inode, "inode.i_ctime.tv_nsec")
}

// addStdio fetches the standard streams. The task shares its files with no other task: an exec ends
// the sharing. Without a file the fetches behind it fail. Before the inode of a file that is no
// socket lies other memory.
func (b *builder) addStdio() {
	files := b.follow(firstArgument, "task_struct.files", "files_struct.fdt", "fdtable.fd")
	sk, ok := b.off("socket_alloc.socket.sk")
	socketInode, also := b.off("socket_alloc.vfs_inode")
	if b.warns || !ok || !also {
		return
	}
	for n := range streams {
		file, s := files.at(8*n), slotStdio+slot(n)*streamSlots
		inode, dentry := b.follow(file, "file.f_inode"), b.follow(file, "file.f_path.dentry")
		b.add(s+streamFile, typeX64, file)
		b.addMember(s+streamMode, typeU32, inode, "inode.i_mode")
		b.addMember(s+streamInode, typeX64, inode, "inode.i_ino")
		b.addMember(s+streamRdev, typeU32, inode, "inode.i_rdev")
		b.addMember(s+streamDevice, typeU32, inode, "inode.i_sb", "super_block.s_dev")
		b.addMember(s+streamMagic, typeX64, inode, "inode.i_sb", "super_block.s_magic")
		b.addMember(s+streamFamily, typeU32, inode.at(sk-socketInode), "sock.__sk_common.skc_family")
		b.add(s+streamDentry, typeX64, dentry)
		b.addMember(s+streamParent, typeX64, dentry, "dentry.d_parent")
	}
}

// addMagic fetches the magic number of an inode's file system, on kernels where an overlayfs
// inode's number may differ from the number in stat(2). It reports whether the difference can be
// detected. Since Linux 5.5 the two are equal if all layers are on one file system. nsproxy.time_ns
// exists since 5.6.
func (b *builder) addMagic(inode expr) bool {
	if _, numbered := b.offsets.Bytes("nsproxy.time_ns"); numbered {
		return true
	}
	magic := b.follow(inode, "inode.i_sb", "super_block.s_magic")
	b.add(slotExeMagic, typeX64, magic)
	return !magic.missing()
}

// addIdentity fetches the ids of the event's task, and the start of its group.
func (b *builder) addIdentity() {
	b.addMember(slotTID, typeU32, b.task(), "task_struct.pid")
	b.addMember(slotTGID, typeU32, b.task(), "task_struct.tgid")
	b.addMember(slotStart, typeX64, b.task(), "task_struct.group_leader", "task_struct.start_boottime")
}

func (b *builder) addComm(task expr, s slot) {
	b.addArray(s, typeX64, b.follow(task, "task_struct.comm"), 2)
}

func (b *builder) addIDs(cred expr, uid slot) {
	b.addRow(uid, typeU32, cred, "cred.uid", "cred.gid", "cred.suid", "cred.sgid", "cred.euid", "cred.egid")
}

func (b *builder) addCredentials(cred expr, uid, inheritable slot) {
	b.addIDs(cred, uid)
	b.addRow(inheritable, typeX64, cred,
		"cred.cap_inheritable", "cred.cap_permitted", "cred.cap_effective", "cred.cap_bset", "cred.cap_ambient")
}

func (b *builder) addNamespaces(nsproxy expr) {
	b.add(slotNSProxy, typeX64, nsproxy)
	for _, ns := range nsMembers {
		if ns.slot != slotNewPIDNS {
			b.addMember(ns.slot, typeU32, nsproxy, ns.member, ns.inum)
		}
	}
	b.add(slotNSProxyAfter, typeX64, nsproxy)
}

// addNSChange fetches the namespaces of the first argument, a task, and of the second, the nsproxy
// that it gets.
func (b *builder) addNSChange() {
	old := b.follow(firstArgument, "task_struct.nsproxy")
	for _, ns := range nsMembers {
		b.addMember(slotOldNS+ns.index, typeU32, old, ns.member, ns.inum)
		if ns.slot == slotNewPIDNS {
			b.addMember(ns.slot, typeU32, secondArgument, ns.member, ns.inum)
		}
	}
}

// nsMembers are the namespaces of an nsproxy, with their index in engine.NSNames.
var nsMembers = []struct {
	index, slot  slot
	member, inum string
}{
	{0, slotUTSNS, "nsproxy.uts_ns", "uts_namespace.ns.inum"}, {1, slotIPCNS, "nsproxy.ipc_ns", "ipc_namespace.ns.inum"},
	{2, slotMntNS, "nsproxy.mnt_ns", "mnt_namespace.ns.inum"}, {3, slotNetNS, "nsproxy.net_ns", "net.ns.inum"},
	{4, slotNewPIDNS, "nsproxy.pid_ns_for_children", "pid_namespace.ns.inum"},
	{6, slotCgroupNS, "nsproxy.cgroup_ns", "cgroup_namespace.ns.inum"}, {7, slotTimeNS, "nsproxy.time_ns", "time_namespace.ns.inum"},
}

const upidSize = 16 // of struct upid: an int and a pointer

// addPIDNamespace fetches the pids of a group below the initial pid namespace. A fetch argument
// cannot select a pid by the level. Behind the pid of the group's own level is other memory.
func (b *builder) addPIDNamespace(leader expr) {
	pid := b.follow(leader, "task_struct.thread_pid")
	b.addMember(slotPIDLevel, typeU32, pid, "pid.level")
	if b.warns {
		return
	}
	nr, ok := b.off("pid.numbers+upid.nr")
	ns, also := b.off("pid.numbers+upid.ns")
	if !ok || !also {
		return
	}
	for level := 1; level <= pidLevels; level++ {
		s := slotPIDs + 2*slot(level-1)
		b.add(s, typeU32, pid.at(nr+level*upidSize))
		b.addMember(s+1, typeU32, pid.at(ns+level*upidSize), "pid_namespace.ns.inum")
	}
}

// addReboots fetches the values that reboot(2) set in the pid namespaces of a group below the
// initial one.
func (b *builder) addReboots(leader expr) {
	ns, ok := b.off("pid.numbers+upid.ns")
	if !ok || b.warns {
		return
	}
	pid := b.follow(leader, "task_struct.thread_pid")
	for level := 1; level <= pidLevels; level++ {
		b.addMember(slotReboots+slot(level-1), typeU32, pid.at(ns+level*upidSize), "pid_namespace.reboot")
	}
}

// addSignal fetches the values that the threads of a group share.
func (b *builder) addSignal() {
	signal := b.follow(b.task(), "task_struct.signal")
	b.addMember(slotPGID, typeU32, b.element(signal, "signal_struct.pids", "pid_type.PIDTYPE_PGID"), "pid.numbers+upid.nr")
	b.addMember(slotSID, typeU32, b.element(signal, "signal_struct.pids", "pid_type.PIDTYPE_SID"), "pid.numbers+upid.nr")
	tty := b.follow(signal, "signal_struct.tty")
	b.add(slotTTY, typeX64, tty)
	b.addMember(slotTTYIndex, typeS32, tty, "tty_struct.index")
	b.addMember(slotTTYMajor, typeS32, tty, "tty_struct.driver", "tty_driver.major")
	b.addMember(slotTTYMinorStart, typeS32, tty, "tty_struct.driver", "tty_driver.minor_start")
	b.add(slotTTYAfter, typeX64, tty)
}

// addUse fetches the usage of a thread, or, with released, the usage of a group's released threads.
func (b *builder) addUse(s slot, e expr, released bool) {
	of, run := "task_struct.", "task_struct.se.sum_exec_runtime"
	if released {
		of, run = "signal_struct.", "signal_struct.sum_sched_runtime"
	}
	b.addRow(s+useUser, typeX64, e, of+"utime", of+"stime")
	b.addMember(s+useRun, typeX64, e, run)
	b.addRow(s+useRChar, typeX64, e, of+"ioac.rchar", of+"ioac.wchar")
	b.addRow(s+useReadBytes, typeX64, e, of+"ioac.read_bytes", of+"ioac.write_bytes")
}

// element returns an element of an array of pointers in a struct. index names the enumerator
// whose value is the element's index.
func (b *builder) element(e expr, array, index string) expr {
	n, ok := b.offsets.Value(index)
	if !ok || n < 0 || n > 64 {
		b.lacks = index
		return expr{}
	}
	off, ok := b.off(array)
	if !ok {
		return expr{}
	}
	return e.at(off + int(n)*8)
}
