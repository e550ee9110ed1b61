// Package scenario has the workloads of the fidelity suite: process trees that record their own
// events.
//
// One process, the director, runs a scenario. It is the caller's own program, executed again with
// the environment variable [Env], so the caller's main function calls [Main] first. The director
// forks processes that make a list of system calls and read the clock between the calls. These
// processes execute programs that either wait while the director observes them, or are this program
// again and report their own state. All processes write records to one socket. The scenario ends
// when the last writer has closed it.
package scenario

import (
	"slices"
)

// Scenario is one workload.
type Scenario struct {
	Name, Doc string
	// Test is the test of quark-test that runs the scenario.
	Test string
	// Quick scenarios have processes so short that all events of each are joined.
	Quick bool
	// Unread scenarios end before any queue is read.
	Unread bool
	// Early scenarios begin before the queues are opened: they report that they are ready, and
	// continue after Wait is called.
	Early bool
	// Tracer scenarios trace some of their processes, so that other tracers cannot trace these.
	Tracer bool
	// run runs the scenario; nil means the script scripts/NAME.script.
	run func(*director)
}

// All returns the scenarios, simple ones first.
func All() []Scenario { return list }

var list []Scenario

func init() {
	list = []Scenario{
		{Name: "fork-exit", Test: "t_fork", Doc: "processes that fork and end, with codes from 0 to 255"},
		{Name: "fork-exec-exit", Test: "t_fork_exec_exit", Doc: "fork, exec, exit of a program that reports itself", run: forkExecExit},
		{Name: "short-lives", Test: "t_fork_exec_exit", Doc: "fork, exec, exit within less than a millisecond", Quick: true, run: shortLives},
		{Name: "vfork", Test: "t_fork", Doc: "vfork and exec"},
		{Name: "posix-spawn", Test: "t_fork", Doc: "a program started by the Go runtime, as posix_spawn does it", run: posixSpawn},
		{Name: "clone-parent", Test: "t_fork", Doc: "clone with CLONE_PARENT: the creator is not the parent", run: cloneParent},
		{Name: "fork-failed", Test: "t_fork", Doc: "a fork that fails when the kernel has made most of the child", run: forkFailed},
		{Name: "clone-signal", Test: "t_fork", Doc: "children that end with another signal than SIGCHLD"},
		{Name: "thread-forks", Test: "t_fork", Doc: "a thread that is not the leader forks", run: threadForks},
		{Name: "clone-cgroup", Test: "t_cgroup", Doc: "clone3 into a cgroup"},
		{Name: "containers", Test: "t_cgroup", Doc: "processes that come into cgroups with names of containers, before and after an exec", run: containers},
		{Name: "cgroup-enter", Test: "t_cgroup", Doc: "processes that move themselves, also in a cgroup namespace"},
		{Name: "cgroup-moves", Test: "t_cgroup", Doc: "processes of several threads that others move, also while they fork", run: cgroupMoves},
		{Name: "clone-namespaces", Test: "t_namespace", Doc: "clone3 into new mount, uts, ipc and net namespaces", run: cloneNamespaces},
		{Name: "clone-ptrace", Test: "t_ptrace", Doc: "clone with CLONE_PTRACE by a traced process", Tracer: true, run: clonePtrace},
		{Name: "exec-chain-2", Test: "t_exec", Doc: "a process executes twice", run: chain(2)},
		{Name: "exec-chain-5", Test: "t_exec", Doc: "a process executes five times", run: chain(5)},
		{Name: "exec-chain-fixed", Test: "t_exec", Doc: "the same at addresses that are not random", run: chain(5, noRandomAddresses)},
		{Name: "exec-from-thread", Test: "t_exec_nonleader", Doc: "a thread that is not the leader executes", run: execFromThread},
		{Name: "leader-first", Test: "t_leader_exits_first", Doc: "the leader ends before the last thread", run: leaderFirst},
		{Name: "exit-group-thread", Test: "t_exit_tgid", Doc: "a thread that is not the leader ends the process", run: exitGroupThread},
		{Name: "threads-200", Test: "t_threads", Doc: "a process of 200 threads", run: threads200},
		{Name: "kill-term", Test: "t_exit_signal", Doc: "death by SIGTERM", run: kill(15)},
		{Name: "kill-kill", Test: "t_exit_signal", Doc: "death by SIGKILL", run: kill(9)},
		{Name: "kill-segv", Test: "t_exit_signal", Doc: "death by SIGSEGV, no core allowed", run: kill(11)},
		{Name: "kill-core", Test: "t_exit_core", Doc: "death by SIGSEGV with a core dump", run: killCore},
		{Name: "kill-core-pipe", Test: "t_exit_core", Doc: "cores that go to a program, in guests only", run: pipeCore},
		{Name: "daemon", Test: "t_fork", Doc: "double fork, setsid, and a subreaper as the new parent", run: daemon},
		{Name: "setuid", Test: "t_setuid_exec", Doc: "a set-user-ID and set-group-ID program", run: setuidProgram},
		{Name: "file-caps", Test: "t_setuid_exec", Doc: "a program with a capability", run: fileCaps},
		{Name: "setres-ids", Test: "t_id_change", Doc: "setresgid and setresuid"},
		{Name: "capset", Test: "t_live_after_exec", Doc: "capset and a smaller bounding set, then exec", run: capset},
		{Name: "session", Test: "t_id_change", Doc: "setsid, and setpgid in another process"},
		{Name: "group-by-parent", Test: "t_id_change", Doc: "setpgid of a process by its parent", run: groupByParent},
		{Name: "comm", Test: "t_comm", Doc: "prctl(PR_SET_NAME) of a process"},
		{Name: "thread-comm", Test: "t_comm", Doc: "prctl(PR_SET_NAME) of a thread, which leaves the process's comm", run: threadComm},
		{Name: "script", Test: "t_exec", Doc: "a script with an interpreter line"},
		{Name: "memfd", Test: "t_exec", Doc: "an executable without a name, in memory"},
		{Name: "deleted", Test: "t_exec", Doc: "an executable that is deleted while it runs"},
		{Name: "exec-overlay", Test: "t_exec", Doc: "an executable and standard error in overlayfs", run: execOverlay},
		{Name: "relative", Test: "t_fork_exec_exit_rel", Doc: "exec by a relative path and by a symbolic link", run: relative},
		{Name: "args-1", Test: "t_long_args", Doc: "one argument", run: args(1, 0)},
		{Name: "args-100", Test: "t_long_args", Doc: "100 arguments", run: args(100, 0)},
		{Name: "args-2000", Test: "t_long_args", Doc: "2,000 arguments", run: args(2000, 0)},
		{Name: "args-100k", Test: "t_long_args", Doc: "a command line of 100 KB", run: args(100, 1000)},
		{Name: "args-overwritten", Test: "t_long_args", Doc: "a process overwrites its arguments, then forks"},
		{Name: "args-none", Test: "t_long_args", Doc: "exec with an empty argv; Linux 5.18 and later add an empty argument 0"},
		{Name: "not-utf8", Test: "t_not_utf8", Doc: "names and arguments of bytes that are not UTF-8", run: odd("\xff\xfe\x80\x01")},
		{Name: "quotes", Test: "t_not_utf8", Doc: "names and arguments with newlines, quotes, parentheses", run: odd("\n\"' ) (x) \\")},
		{Name: "cwd-root", Test: "t_deep_cwd", Doc: "the working directory is /", run: cwdRoot},
		{Name: "cwd-30", Test: "t_deep_cwd", Doc: "a working directory 30 deep", run: cwdDeep(30)},
		{Name: "cwd-120", Test: "t_deep_cwd", Doc: "a working directory 120 deep", run: cwdDeep(120)},
		{Name: "cwd-bind", Test: "t_mount_cwd", Doc: "a working directory on a bind mount", run: cwdBind},
		{Name: "cwd-overlay", Test: "t_mount_cwd", Doc: "a working directory in overlayfs", run: cwdOverlay},
		{Name: "cwd-deleted", Test: "t_deep_cwd", Doc: "a working directory that was deleted"},
		{Name: "cwd-detached", Test: "t_mount_cwd", Doc: "a working directory and a program on a mount that was detached", run: cwdDetached},
		{Name: "chdir-exec", Test: "t_deep_cwd", Doc: "chdir right before the exec of a short life"},
		{Name: "chroot", Test: "t_chroot", Doc: "exec in another root", run: chroot},
		{Name: "pivot-root", Test: "t_chroot", Doc: "exec after pivot_root", run: pivotRoot},
		{Name: "ns-reboot", Test: "t_exit_signal", Doc: "reboot(2) in pid namespaces", run: nsReboot},
		{Name: "ns-user", Test: "t_namespace", Doc: "a process in a user namespace", run: nsUser},
		{Name: "ns-mnt-net-uts-ipc", Test: "t_namespace", Doc: "unshare of the other namespaces, one process each"},
		{Name: "ns-others", Test: "t_namespace", Doc: "unshare and clone of user, cgroup and pid namespaces, one process each"},
		{Name: "ns-time", Test: "t_namespace", Doc: "unshare and clone of time namespaces, one process each"},
		{Name: "ns-enter", Test: "t_namespace", Doc: "setns to namespaces of each kind", run: nsEnter},
		{Name: "ns-changes", Test: "t_ns_change", Doc: "setns and unshare of several namespaces, in a thread, in a user namespace, and with errors", run: nsChanges},
		{Name: "compat-ns", Test: "t_ns_change", Doc: "a namespace that a 32-bit system call changes", run: compatNS},
		{Name: "entry-leaders", Test: "t_entry", Doc: "logins with sshd, containers and their runtimes, sessions of SSM", run: entries},
		{Name: "exec-failed", Test: "t_exec_failed", Doc: "execs that fail, in processes, threads and searches of a path", run: execFailed},
		{Name: "environ", Test: "t_environ", Doc: "programs with empty, odd, secret and long environments", run: environ},
		{Name: "login", Test: "t_login", Doc: "processes that write their login uid, fork and execute"},
		{Name: "pty", Test: "t_id_change", Doc: "a session on a pseudo terminal", run: pty},
		{Name: "stdio", Test: "t_exec", Doc: "standard input, output and error of each type"},
		{Name: "stdio-shared", Test: "t_exec", Doc: "standard error on tmpfs, and files that a parent shares", run: stdioShared},
		{Name: "pid-reuse", Test: "t_pid_reuse", Doc: "a pid is used again within a millisecond", run: pidReuse},
		{Name: "older", Test: "t_older", Doc: "a process older than the monitor executes, changes and ends", Early: true, run: older},
		{Name: StormName, Test: "t_storm_lives", Doc: "1,000 short lives (100 in a guest) by 4 workers, as fast as they can", Early: true, run: defaultStorm.run},
		{Name: "ptrace", Test: "t_ptrace", Doc: "a tracer attaches, or seizes, and detaches", Tracer: true, run: ptrace},
		{Name: "tracer-ends", Test: "t_ptrace", Doc: "a tracer that ends, and a process that asks to be traced", Tracer: true, run: tracerEnds},
		{Name: "compat-tracer", Test: "t_ptrace", Doc: "a tracer that makes 32-bit system calls", Tracer: true, run: compatTracer},
		{Name: "compat-ids", Test: "t_id_change", Doc: "ids that 32-bit system calls change", Tracer: true, run: compatIDs},
		{Name: "kill-hup", Test: "t_exit_signal", Doc: "death by SIGHUP", run: kill(1)},
		{Name: "kill-rt", Test: "t_exit_signal", Doc: "death by a real-time signal", run: kill(40)},
		{Name: "thread-status", Test: "t_exit_tgid", Doc: "a thread ends with another status, before or at the same time as its process", run: threadStatus},
		{Name: "thread-killed", Test: "t_exit_tgid", Doc: "seccomp kills one thread, and the process ends later with a code", run: threadKilled},
		{Name: "held-thread", Test: "t_exit_tgid", Doc: "a tracer holds a thread that began to end before its process did", Tracer: true, run: heldThread},
		{Name: "end-together", Test: "t_exit_tgid", Doc: "all threads of a process end at the same moment", run: endTogether},
		{Name: "usage", Test: "t_usage", Doc: "processes with one and more threads that use CPU time, memory and files", run: usage},
		{Name: "thread-ends", Test: "t_threads", Doc: "threads live and end while their process lives on", run: threadEnds},
		{Name: "single-ids", Test: "t_id_change", Doc: "one call that changes an id in each process", run: singleIDs},
		{Name: "same-ids", Test: "t_id_change", Doc: "ids set to what they are, and ids of file system access", run: sameIDs},
		{Name: "changed-before-exec", Test: "t_live_after_exec", Doc: "names, ids, capabilities, group and directory change before exec", run: changedBefore},
		{Name: "args-16k", Test: "t_long_args", Doc: "a command line of 16 KB", run: args(16, 1000)},
		{Name: "args-sizes", Test: "t_long_args", Doc: "short lives with command lines of 1 byte to 100 KB", run: argsSizes},
		{Name: "cwd-90", Test: "t_deep_cwd", Doc: "a working directory 90 deep", run: cwdDeep(90)},
		{Name: "cwd-200", Test: "t_deep_cwd", Doc: "a working directory 200 deep", run: cwdDeep(200)},
		{Name: "cwd-long-names", Test: "t_deep_cwd", Doc: "a working directory of 15 names of 250 bytes", run: cwdLongNames},
		{Name: "cwd-mounts", Test: "t_mount_cwd", Doc: "working directories in mounts below mounts", run: cwdMounts},
		{Name: "cwd-deep-mounts", Test: "t_deep_mount_cwd", Doc: "working directories deep in mounts, of living and of short processes", run: cwdDeepMounts},
		{Name: "pid-reuse-read", Test: "t_pid_reuse", Doc: "a pid is used again some ticks after it was seen", run: pidReuseLater(true)},
		{Name: "pid-reuse-unread", Test: "t_pid_reuse", Doc: "the same, before anything is read", Unread: true, run: pidReuseLater(false)},
		{Name: "one-by-one", Test: "t_min_agg", Doc: "fork, ids, comm, exec and exit without a pause"},
		{Name: "thread-unasked", Test: "t_no_threads", Doc: "the threads of a process for queues that do not want any", run: threadEnds},
	}
}

// Find returns the scenario with this name: from the list, a storm, or a script file.
func Find(name string) (Scenario, bool) {
	if s, ok := parseStorm(name); ok {
		return s.Scenario(), true
	}
	if s, ok := parseFile(name); ok {
		return s, true
	}
	i := slices.IndexFunc(list, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return list[i], true
}

// Of returns the scenarios of a quark-test test.
func Of(test string) (own []Scenario) {
	for _, s := range list {
		if s.Test == test {
			own = append(own, s)
		}
	}
	return own
}
