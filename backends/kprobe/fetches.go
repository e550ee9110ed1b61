package kprobe

import "github.com/quark-linux/quark/internal/proctext"

// offsets are where members lie in the kernel's types, see btfhub.Offsets.
type offsets interface {
	Bytes(name string) (off uint32, ok bool)
	Value(name string) (value int64, ok bool)
}

// builder collects the fetch arguments of one probe. It leaves out what needs a member that the
// kernel's types lack.
type builder struct {
	offsets offsets
	reads   int // what a fetch argument has room for
	cgroups proctext.Hierarchy
	threads bool // single threads are reported
	args    []fetch
	lacks   string // the last member that was not found
}

// off returns the sum of the offsets of members.
func (b *builder) off(members ...string) (sum int, ok bool) {
	for _, m := range members {
		off, ok := b.offsets.Bytes(m)
		if !ok {
			b.lacks = m
			return 0, false
		}
		sum += int(off)
	}
	return sum, true
}

// follow returns the value at the end of a chain of members, of which each but the last is a
// pointer.
func (b *builder) follow(e expr, members ...string) (expr, bool) {
	for _, m := range members {
		off, ok := b.off(m)
		if !ok {
			return expr{}, false
		}
		e = e.at(off)
	}
	return e, true
}

// add appends a fetch argument if its value exists.
func (b *builder) add(s slot, t fetchType, e expr, ok bool) bool {
	if ok {
		b.args = append(b.args, fetch{slot: s, value: e, typ: t})
	}
	return ok
}

// addMember fetches the value at the end of a chain of members.
func (b *builder) addMember(s slot, t fetchType, e expr, members ...string) bool {
	e, ok := b.follow(e, members...)
	return b.add(s, t, e, ok)
}

// addRow fetches members of one struct into consecutive slots, as one array where they are
// adjacent: that costs the kernel less.
func (b *builder) addRow(s slot, t fetchType, e expr, members ...string) {
	first, inRow := b.off(members[0])
	for i, m := range members {
		off, ok := b.off(m)
		inRow = inRow && ok && off == first+i*t.size
	}
	if inRow {
		b.args = append(b.args, fetch{slot: s, value: e.at(first), typ: t, count: len(members)})
		return
	}
	for i, m := range members {
		off, ok := b.off(m)
		b.add(s+slot(i), t, e.at(off), ok)
	}
}

// addTask fetches the fields of the task that is the function's first argument: ids, start and
// parent of the group, which identify the process, and everything else of state, which is the task
// or its group's leader.
func (b *builder) addTask(state expr) {
	b.addIdentity()
	if leader, ok := b.follow(firstArgument, "task_struct.group_leader"); ok {
		b.addMember(slotPPID, typeU32, leader, "task_struct.real_parent", "task_struct.tgid")
		b.addMember(slotLeaderSignal, typeS32, leader, "task_struct.exit_signal")
	}
	if cred, ok := b.follow(state, "task_struct.real_cred"); ok {
		b.addCredentials(cred, slotUID, slotCapInheritable)
	}
	b.addNamespaces(state)
	b.addSignal()
}

// addIdentity fetches the ids of the task that is the function's first argument, and the start of
// its group.
func (b *builder) addIdentity() {
	b.addMember(slotTID, typeU32, firstArgument, "task_struct.pid")
	b.addMember(slotTGID, typeU32, firstArgument, "task_struct.tgid")
	b.addMember(slotStart, typeX64, firstArgument, "task_struct.group_leader", "task_struct.start_boottime")
}

func (b *builder) addComm(task expr, s slot) {
	if off, ok := b.off("task_struct.comm"); ok {
		b.args = append(b.args, fetch{slot: s, value: task.at(off), typ: typeX64, count: 2})
	}
}

func (b *builder) addIDs(cred expr, uid slot) {
	b.addRow(uid, typeU32, cred, "cred.uid", "cred.gid", "cred.suid", "cred.sgid", "cred.euid", "cred.egid")
}

func (b *builder) addCredentials(cred expr, uid, inheritable slot) {
	b.addIDs(cred, uid)
	b.addRow(inheritable, typeX64, cred,
		"cred.cap_inheritable", "cred.cap_permitted", "cred.cap_effective", "cred.cap_bset", "cred.cap_ambient")
}

func (b *builder) addNamespaces(task expr) {
	nsproxy, ok := b.follow(task, "task_struct.nsproxy")
	if !b.add(slotNSProxy, typeX64, nsproxy, ok) {
		return
	}
	b.addMember(slotUTSNS, typeU32, nsproxy, "nsproxy.uts_ns", "uts_namespace.ns.inum")
	b.addMember(slotIPCNS, typeU32, nsproxy, "nsproxy.ipc_ns", "ipc_namespace.ns.inum")
	b.addMember(slotMntNS, typeU32, nsproxy, "nsproxy.mnt_ns", "mnt_namespace.ns.inum")
	b.addMember(slotNetNS, typeU32, nsproxy, "nsproxy.net_ns", "net.ns.inum")
}

// addSignal fetches what the threads of a group share.
func (b *builder) addSignal() {
	signal, ok := b.follow(firstArgument, "task_struct.signal")
	if !ok {
		return
	}
	nr, ok := b.off("pid.numbers", "upid.nr")
	if pgid, found := b.element("signal_struct.pids", "pid_type.PIDTYPE_PGID"); found {
		b.add(slotPGID, typeU32, signal.at(pgid).at(nr), ok)
	}
	if sid, found := b.element("signal_struct.pids", "pid_type.PIDTYPE_SID"); found {
		b.add(slotSID, typeU32, signal.at(sid).at(nr), ok)
	}
	tty, ok := b.follow(signal, "signal_struct.tty")
	if !b.add(slotTTY, typeX64, tty, ok) {
		return
	}
	b.addMember(slotTTYIndex, typeS32, tty, "tty_struct.index")
	b.addMember(slotTTYMajor, typeS32, tty, "tty_struct.driver", "tty_driver.major")
	b.addMember(slotTTYMinorStart, typeS32, tty, "tty_struct.driver", "tty_driver.minor_start")
}

// element returns the offset of an element of an array of pointers, by the name of its index.
func (b *builder) element(array, index string) (off int, ok bool) {
	n, ok := b.offsets.Value(index)
	if !ok || n < 0 || n > 64 {
		b.lacks = index
		return 0, false
	}
	off, ok = b.off(array)
	return off + int(n)*8, ok
}
