package scenario

// Scenario is one workload.
type Scenario struct {
	Name, Doc string
	// Early scenarios begin before the queues are opened: they say when they are
	// ready, and wait until they are told to go on.
	Early bool
	run   func(*director)
}

// All are the scenarios, the simple ones first.
func All() []Scenario { return list }

var list []Scenario

func init() {
	list = []Scenario{
		{Name: "fork-exit", Doc: "processes that fork and end, with codes from 0 to 255", run: forkExit},
		{Name: "fork-exec-exit", Doc: "fork, exec, exit of a program that reports itself", run: forkExecExit},
		{Name: "short-lives", Doc: "fork, exec, exit within less than a millisecond", run: shortLives},
		{Name: "vfork", Doc: "vfork and exec", run: vfork},
		{Name: "posix-spawn", Doc: "a program started by the Go runtime, as posix_spawn does it", run: posixSpawn},
		{Name: "clone-parent", Doc: "clone with CLONE_PARENT: the creator is not the parent", run: cloneParent},
		{Name: "clone-cgroup", Doc: "clone3 into a cgroup", run: cloneCgroup},
		{Name: "clone-namespaces", Doc: "clone3 into new mount, uts, ipc and net namespaces", run: cloneNamespaces},
		{Name: "clone-ptrace", Doc: "clone with CLONE_PTRACE by a traced process", run: clonePtrace},
		{Name: "exec-chain-2", Doc: "a process executes twice", run: chain(2)},
		{Name: "exec-chain-5", Doc: "a process executes five times", run: chain(5)},
		{Name: "exec-from-thread", Doc: "a thread that is not the leader executes", run: execFromThread},
		{Name: "leader-first", Doc: "the leader ends before the last thread", run: leaderFirst},
		{Name: "exit-group-thread", Doc: "a thread that is not the leader ends the process", run: exitGroupThread},
		{Name: "threads-200", Doc: "a process of 200 threads", run: threads200},
		{Name: "kill-term", Doc: "death by SIGTERM", run: kill(15)},
		{Name: "kill-kill", Doc: "death by SIGKILL", run: kill(9)},
		{Name: "kill-segv", Doc: "death by SIGSEGV, no core allowed", run: kill(11)},
		{Name: "kill-core", Doc: "death by SIGSEGV with a core dump", run: killCore},
		{Name: "daemon", Doc: "double fork, setsid, and a subreaper as the new parent", run: daemon},
		{Name: "setuid", Doc: "a set-user-ID and set-group-ID program", run: setuidProgram},
		{Name: "setres-ids", Doc: "setresgid and setresuid", run: setresIDs},
		{Name: "capset", Doc: "capset and a smaller bounding set, then exec", run: capset},
		{Name: "session", Doc: "setsid, and setpgid in another process", run: session},
		{Name: "comm", Doc: "prctl(PR_SET_NAME) of a process", run: comm},
		{Name: "thread-comm", Doc: "prctl(PR_SET_NAME) of a thread, which leaves the process's comm", run: threadComm},
		{Name: "script", Doc: "a script with an interpreter line", run: hashBang},
		{Name: "memfd", Doc: "an executable without a name, in memory", run: memfd},
		{Name: "deleted", Doc: "an executable that is deleted while it runs", run: deletedProgram},
		{Name: "relative", Doc: "exec by a relative path and by a symbolic link", run: relative},
		{Name: "args-1", Doc: "one argument", run: args(1, 0)},
		{Name: "args-100", Doc: "100 arguments", run: args(100, 0)},
		{Name: "args-2000", Doc: "2,000 arguments", run: args(2000, 0)},
		{Name: "args-100k", Doc: "a command line of 100 KB", run: args(100, 1000)},
		{Name: "args-none", Doc: "exec with an empty argv", run: argsNone},
		{Name: "not-utf8", Doc: "names and arguments of bytes that are not UTF-8", run: odd("\xff\xfe\x80\x01")},
		{Name: "quotes", Doc: "names and arguments with newlines, quotes, parentheses", run: odd("\n\"' ) (x) \\")},
		{Name: "cwd-root", Doc: "the working directory is /", run: cwdRoot},
		{Name: "cwd-30", Doc: "a working directory 30 deep", run: cwdDeep(30)},
		{Name: "cwd-120", Doc: "a working directory 120 deep", run: cwdDeep(120)},
		{Name: "cwd-bind", Doc: "a working directory on a bind mount", run: cwdBind},
		{Name: "cwd-overlay", Doc: "a working directory in overlayfs", run: cwdOverlay},
		{Name: "cwd-deleted", Doc: "a working directory that was deleted", run: cwdDeleted},
		{Name: "chdir-exec", Doc: "chdir right before the exec of a short life", run: chdirExec},
		{Name: "chroot", Doc: "exec in another root", run: chroot},
		{Name: "pivot-root", Doc: "exec after pivot_root", run: pivotRoot},
		{Name: "ns-pid", Doc: "the first process of a pid namespace", run: nsPID},
		{Name: "ns-user", Doc: "a process in a user namespace", run: nsUser},
		{Name: "ns-mnt-net-uts-ipc", Doc: "unshare of the other namespaces, one process each", run: nsOthers},
		{Name: "pty", Doc: "a session on a pseudo terminal", run: pty},
		{Name: "pid-reuse", Doc: "a pid is used again within a millisecond", run: pidReuse},
		{Name: "older", Doc: "a process older than the monitor executes, changes and ends", Early: true, run: older},
		{Name: StormName, Doc: "1,000 short lives by 4 workers, as fast as they can", Early: true, run: defaultStorm.run},
		{Name: "ptrace", Doc: "attach and detach of a tracer", run: ptrace},
	}
}

func find(name string) *Scenario {
	if s, ok := parseStorm(name); ok {
		storm := s.Scenario()
		return &storm
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Find returns the scenario of that name.
func Find(name string) (s Scenario, ok bool) {
	if f := find(name); f != nil {
		return *f, true
	}
	return s, false
}
