package main

// row describes a test.
type row struct {
	name string
	doc  string // the property that the test checks, in one line
	run  func(*test)

	begin     func(*test) // runs before the shared queues open
	shared    string      // kind of the queues that it shares with other tests
	types     bool        // run again with the kernel's types hidden
	noBackend bool        // runs once, without a backend
}

// tests lists all tests in the order in which they run. Tests of processes perform the scenarios of
// package fidelity/scenario that name the test. The other tests are about queues.
var tests = []row{
	{name: "t_probe", doc: "the backend opens and closes, and leaves nothing", run: probe},
	{name: "t_older", doc: "a process older than the queue executes, changes and ends", begin: beginOlder, run: runScenarios, shared: defaultQueue},
	{name: "t_fork", doc: "processes start by fork, vfork, clone and double fork", run: runScenarios, shared: defaultQueue},
	{name: "t_fork_exec_exit", doc: "a short life is one event with every attribute right", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_fork_exec_exit_rel", doc: "the executable of a relative path or a link is absolute", run: runScenarios, shared: defaultQueue},
	{name: "t_ns_change", doc: "setns and unshare", run: runScenarios, shared: detailedQueue, types: true},
	{name: "t_id_change", doc: "user, group and session ids change", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_entry", doc: "the entry leaders of logins and containers", run: runScenarios, shared: defaultQueue},
	{name: "t_stats", doc: "counters start at zero and count right", run: stats, shared: defaultQueue},
	{name: "t_exit_tgid", doc: "a thread ends its group: one EXIT with the group's status", run: runScenarios, shared: defaultQueue},
	{name: "t_exit_signal", doc: "the signal that ended a process", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_exit_core", doc: "the core bit is set when a core was written", run: runScenarios, shared: defaultQueue},
	{name: "t_leader_exits_first", doc: "EXIT comes with the last thread, not with the leader", run: runScenarios, shared: defaultQueue},
	{name: "t_exec", doc: "several execs, scripts, programs without a file", run: runScenarios, shared: defaultQueue},
	{name: "t_exec_nonleader", doc: "another thread than the leader executes", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_comm", doc: "a process renames itself", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_setuid_exec", doc: "a set-id program has the ids of its file", run: runScenarios, shared: defaultQueue},
	{name: "t_namespace", doc: "namespaces are the process's own", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_cgroup", doc: "the cgroup is the process's own", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_login", doc: "the login is the process's own", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_usage", doc: "resource usage is what wait4 returns to the parent", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_live_after_exec", doc: "a process that lives on after exec has its new state", run: runScenarios, shared: defaultQueue},
	{name: "t_ptrace", doc: "a tracer attaches and detaches", run: runScenarios, shared: defaultQueue},
	{name: "t_long_args", doc: "16 KB of arguments are whole, 100 KB marked as cut", run: runScenarios, shared: defaultQueue},
	{name: "t_deep_cwd", doc: "deep working directories are right or marked as cut", run: runScenarios, shared: defaultQueue},
	{name: "t_mount_cwd", doc: "working directories in mounts below mounts are whole", run: runScenarios, shared: defaultQueue, types: true},
	{name: "t_deep_mount_cwd", doc: "working directories deep in mounts are whole, or marked as cut after the end", run: runScenarios, shared: defaultQueue},
	{name: "t_chroot", doc: "paths in another root", run: runScenarios, shared: defaultQueue},
	{name: "t_not_utf8", doc: "names keep every byte", run: runScenarios, shared: defaultQueue},
	{name: "t_pid_reuse", doc: "a pid that is used again is another process", run: runScenarios, shared: defaultQueue},
	{name: "t_no_threads", doc: "threads are not reported unless asked for", run: runScenarios, shared: defaultQueue},
	{name: "t_threads", doc: "threads are reported when asked for", run: runScenarios, shared: defaultQueue},
	{name: "t_min_agg", doc: "FORK, EXEC and EXIT come one by one", run: runScenarios, shared: defaultQueue},
	{name: "t_storm_lives", doc: "delivered events of a storm are right, the others are counted as lost", run: runScenarios, shared: defaultQueue},
	{name: "t_two_queues", doc: "several queues work at once, also after one is closed", run: twoQueues, shared: defaultQueue},
	{name: "t_exec_failed", doc: "failed execs are reported if asked for", run: runScenarios, shared: detailedQueue},
	{name: "t_environ", doc: "only the selected variables of the environment are reported", run: runScenarios, shared: detailedQueue},
	{name: "t_types_archive", doc: "the archive's types of this kernel equal the kernel's own", run: archivedTypes, noBackend: true},
}

// unsuited maps a backend to the tests that do not apply to it, with the reasons.
var unsuited = map[string]map[string]string{
	"audit": {
		"t_stats": "which of its events are joined depends on a coarse clock",
	},
}
