package btfhub

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Target is a member or an enumerator of the kernel's types that quark reads.
type Target struct {
	// Name is TYPE.MEMBER[.MEMBER...] or ENUM.VALUE.
	Name string

	// Alternatives are tried in order. The first one is Name.
	Alternatives []string

	// Optional is set if only one feature of quark needs the target.
	Optional bool
}

// targets are the members that kprobe definitions read, and that the eBPF programs require. Run
// 'make btfhub' after a change.
var targets = []Target{
	// The process.
	need("task_struct.pid"),
	need("task_struct.tgid"),
	need("task_struct.comm"),
	need("task_struct.flags"),
	need("task_struct.exit_code"),
	need("task_struct.exit_state"),
	need("task_struct.exit_signal"), // -1 in all threads except the leader
	need("task_struct.real_parent"),
	need("task_struct.group_leader"),
	need("task_struct.start_boottime", "task_struct.real_start_time"), // renamed in 5.5
	need("task_struct.real_cred"),
	need("task_struct.mm"),
	need("task_struct.fs"),
	need("task_struct.nsproxy"),
	need("task_struct.signal"),
	want("task_struct.cgroups"),  // CONFIG_CGROUPS
	want("task_struct.loginuid"), // CONFIG_AUDIT
	want("task_struct.sessionid"),
	want("task_struct.atomic_flags"),
	want("task_struct.seccomp.mode"), // CONFIG_SECCOMP
	want("task_struct.thread_pid"),   // in an array before 4.19
	want("task_struct.children"),

	// The thread group.
	need("signal_struct.live.counter"),
	need("signal_struct.nr_threads"),
	want("signal_struct.is_child_subreaper"),
	need("signal_struct.flags"),
	need("signal_struct.group_exit_code"),
	need("signal_struct.tty"),
	need("signal_struct.cred_guard_mutex"),

	// Resource usage of the threads.
	want("task_struct.utime"),
	want("task_struct.stime"),
	want("task_struct.se.sum_exec_runtime"),
	want("task_struct.ioac.rchar"), // CONFIG_TASK_XACCT
	want("task_struct.ioac.wchar"),
	want("task_struct.ioac.read_bytes"), // CONFIG_TASK_IO_ACCOUNTING
	want("task_struct.ioac.write_bytes"),
	want("signal_struct.utime"),
	want("signal_struct.stime"),
	want("signal_struct.sum_sched_runtime"),
	want("signal_struct.cutime"),
	want("signal_struct.cstime"),
	want("signal_struct.cmaxrss"),
	want("signal_struct.ioac.rchar"),
	want("signal_struct.ioac.wchar"),
	want("signal_struct.ioac.read_bytes"),
	want("signal_struct.ioac.write_bytes"),
	want("signal_struct.prev_cputime.utime"), // no CONFIG_VIRT_CPU_ACCOUNTING_NATIVE
	want("signal_struct.prev_cputime.stime"),
	want("signal_struct.maxrss"),
	// The second alternative is for PREEMPT_RT, the third for PREEMPT_RT in 5.10.
	want("mutex.owner", "mutex.rtmutex.owner", "mutex.lock.owner"),

	// pgid and sid.
	need("signal_struct.pids"),
	need("pid_type.PIDTYPE_PGID"),
	need("pid_type.PIDTYPE_SID"),
	need("pid.numbers"),
	need("upid.nr"),
	want("upid.ns"),
	want("pid.level"),
	want("pid_namespace.ns.inum"),
	want("pid_namespace.reboot"),

	// Credentials.
	need("cred.uid"),
	need("cred.gid"),
	need("cred.suid"),
	need("cred.sgid"),
	need("cred.euid"),
	need("cred.egid"),
	need("cred.cap_inheritable"),
	need("cred.cap_permitted"),
	need("cred.cap_effective"),
	need("cred.cap_bset"),
	want("cred.cap_ambient"), // since 4.3

	// Memory: executable and arguments.
	need("mm_struct.exe_file"),
	need("mm_struct.arg_start"),
	need("mm_struct.arg_end"),
	want("mm_struct.env_end"),

	// The file of the executable.
	want("file.f_cred"),
	want("file.f_inode"),
	want("inode.i_mode"),
	want("inode.i_uid"),
	want("inode.i_gid"),
	want("inode.i_sb"),
	want("inode.i_ino"),
	want("inode.i_nlink"),
	// Renamed in 6.6 and 6.11.
	want("inode.i_ctime.tv_sec", "inode.__i_ctime.tv_sec", "inode.i_ctime_sec"),
	want("inode.i_ctime.tv_nsec", "inode.__i_ctime.tv_nsec", "inode.i_ctime_nsec"),
	want("super_block.s_dev"),

	// The standard streams.
	want("task_struct.files"),
	want("files_struct.fdt"),
	want("fdtable.fd"),
	want("inode.i_rdev"),
	want("super_block.s_magic"),
	want("socket_alloc.vfs_inode"),
	want("socket_alloc.socket.sk"),
	want("sock.__sk_common.skc_family"),

	// Files and paths.
	need("file.f_path.dentry"),
	need("file.f_path.mnt"),
	need("dentry.d_parent"),
	need("dentry.d_name.name"),
	need("fs_struct.pwd.dentry"),
	need("fs_struct.pwd.mnt"),
	need("fs_struct.root.dentry"),
	need("fs_struct.root.mnt"),
	need("vfsmount.mnt_root"),
	need("mount.mnt"),
	need("mount.mnt_parent"),
	need("mount.mnt_mountpoint"),

	// Namespaces. Before 3.19 there is no ns_common.
	need("nsproxy.uts_ns"),
	need("nsproxy.ipc_ns"),
	need("nsproxy.mnt_ns"),
	need("nsproxy.net_ns"),
	need("uts_namespace.ns.inum", "uts_namespace.proc_inum"),
	need("ipc_namespace.ns.inum", "ipc_namespace.proc_inum"),
	need("mnt_namespace.ns.inum", "mnt_namespace.proc_inum"),
	need("net.ns.inum", "net.proc_inum"),
	want("cred.user_ns"),
	want("user_namespace.ns.inum"),
	want("nsproxy.pid_ns_for_children"),
	want("nsproxy.cgroup_ns"), // since 4.6
	want("cgroup_namespace.ns.inum"),
	want("nsproxy.time_ns"), // since 5.6
	want("time_namespace.ns.inum"),

	// Terminals.
	need("tty_struct.driver"),
	need("tty_struct.index"),
	need("tty_driver.major"),
	need("tty_driver.minor_start"),

	// Control groups.
	want("css_set.dfl_cgrp"),
	want("css_set.subsys"),
	want("cgroup_subsys_state.cgroup"),
	want("cgroup_subsys_id.pids_cgrp_id"),
	want("cgroup.kn"),
	want("kernfs_node.parent", "kernfs_node.__parent"), // renamed in 6.15
	want("kernfs_node.name"),
}

// need returns a target that is not optional.
func need(alternatives ...string) Target {
	return Target{Name: alternatives[0], Alternatives: alternatives}
}

// want returns an optional target.
func want(alternatives ...string) Target {
	t := need(alternatives...)
	t.Optional = true
	return t
}

// Targets returns what [Resolve] looks up, in the order of [Offsets.All]. The caller must not
// change them.
func Targets() []Target { return targets }

// programMembers is the list of members that the eBPF programs relocate against. A line is
// TYPE.MEMBER[.MEMBER...] or a type. 'make btfhub' writes the file from the compiled programs.
//
//go:embed members.txt
var programMembers string

// IteratorMembers are members of the program that lists existing processes. It is loaded only with
// the running kernel's own types, so the archive has none of them.
var IteratorMembers = []string{"fs_struct.seq", "task_struct.__state", "task_struct.alloc_lock"}

// OlderMembers are members that are read only on kernels older than the archive's, so the archive
// has none of them.
var OlderMembers = []string{"super_block.s_magic"}

// Needed returns the members of the kernel's types that quark needs: those that the eBPF programs
// of this version relocate against, the alternatives of the [Targets], and the [OlderMembers].
func Needed() []string { return append(NeededFor(strings.Fields(programMembers)), OlderMembers...) }

// Moved returns the [Needed] members, without the [OlderMembers], that have different offsets in
// two kernels, or are in one of them only.
func Moved(x, y *btf.Spec) []string {
	var wanted []Target
	for _, m := range NeededFor(strings.Fields(programMembers)) {
		if strings.Contains(m, ".") {
			wanted = append(wanted, Target{Name: m, Alternatives: []string{m}})
		}
	}
	return ResolveTargets(x, wanted).Moved(ResolveTargets(y, wanted))
}

// NeededFor returns the members that an archive must have: the given members, against which
// programs relocate, and all alternatives of the [Targets].
func NeededFor(programs []string) []string {
	members := slices.Clone(programs)
	for _, t := range targets {
		members = append(members, t.Alternatives...)
	}
	slices.Sort(members)
	return slices.Compact(members)
}
