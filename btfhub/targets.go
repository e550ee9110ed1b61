package btfhub

// Target is something that quark has to find in the kernel's types.
type Target struct {
	// Name is how the target is asked for: TYPE.MEMBER[.MEMBER...] for an
	// offset, ENUM.VALUE for a value.
	Name string

	// Alternatives are tried in order; the first is Name itself.
	Alternatives []string

	// Instead is the target that takes this one's place on other kernels, if
	// there is one: it is enough if one of them is found.
	Instead string

	// Optional targets serve a feature that quark can do without.
	Optional bool
}

// targets are all that kprobe definitions need. Lines are added here freely;
// then the archive is made anew (make btfhub).
var targets = list(
	// The process.
	need("task_struct.pid"),
	need("task_struct.tgid"),
	need("task_struct.comm"),
	need("task_struct.flags"),
	need("task_struct.exit_code"),
	need("task_struct.exit_state"),
	need("task_struct.exit_signal"), // kprobe: -1 in all threads but the leader, for filters
	need("task_struct.real_parent"),
	need("task_struct.group_leader"),
	need("task_struct.start_boottime", "task_struct.real_start_time"), // renamed in 5.5
	need("task_struct.real_cred"),
	need("task_struct.mm"),
	need("task_struct.fs"),
	need("task_struct.nsproxy"),
	need("task_struct.signal"),
	want("task_struct.cgroups"), // CONFIG_CGROUPS

	// The thread group. Its size: thread_group_empty() and the like need no
	// more than nr_threads and live.
	need("signal_struct.live.counter"),
	need("signal_struct.nr_threads"),
	need("signal_struct.flags"),
	need("signal_struct.group_exit_code"),
	need("signal_struct.tty"),
	need("signal_struct.cred_guard_mutex"),
	want("mutex.owner", "mutex.rtmutex.owner", "mutex.lock.owner"), // real-time kernels; 5.10 has yet another

	// pgid and sid. Since 4.19 pids[] is in signal_struct and holds pointers
	// to struct pid; before it was in task_struct and held struct pid_link.
	// The numbers come from the enum, for RHEL 8 has the new place with the old
	// numbers.
	need("signal_struct.pids").or("task_struct.pids"),
	need("task_struct.pids").or("signal_struct.pids"),
	need("pid_link.pid").or("signal_struct.pids"),
	need("pid_type.PIDTYPE_PGID"),
	need("pid_type.PIDTYPE_SID"),
	need("pid.numbers"),
	need("upid.nr"),

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

	// Files and paths.
	need("file.f_path.dentry"),
	need("file.f_path.mnt"),
	need("path.dentry"),
	need("path.mnt"),
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

	// Namespaces. ns_common came with 3.19; before it the number stood alone.
	need("nsproxy.uts_ns"),
	need("nsproxy.ipc_ns"),
	need("nsproxy.mnt_ns"),
	need("nsproxy.net_ns"),
	need("uts_namespace.ns.inum", "uts_namespace.proc_inum"),
	need("ipc_namespace.ns.inum", "ipc_namespace.proc_inum"),
	need("mnt_namespace.ns.inum", "mnt_namespace.proc_inum"),
	need("net.ns.inum", "net.proc_inum"),

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
)

// need is a target without which a kernel's types are not enough.
func need(alternatives ...string) Target {
	return Target{Name: alternatives[0], Alternatives: alternatives}
}

// want is an optional target.
func want(alternatives ...string) Target {
	t := need(alternatives...)
	t.Optional = true
	return t
}

func (t Target) or(instead string) Target {
	t.Instead = instead
	return t
}

func list(all ...Target) []Target { return all }

// Targets returns what [Resolve] looks up, in the order of [Offsets.All].
func Targets() []Target { return list(targets...) }
