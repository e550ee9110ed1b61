package main

import "github.com/quark-linux/quark/internal/harness/testrun"

// tests are all tests, in the order in which they run. Tests of processes perform the
// scenarios of package fidelity/scenario that name them; the others are about queues.
var tests = []testrun.Test{
	{Name: "t_probe", Doc: "the backend opens and closes, and leaves nothing", Run: with(probe)},
	{Name: "t_older", Doc: "a process older than the queue executes, changes and ends", Run: with(lives), Shared: defaultQueue},
	{Name: "t_fork", Doc: "births by fork, vfork, clone and double fork", Run: with(lives), Shared: defaultQueue},
	{Name: "t_fork_exec_exit", Doc: "a short life is one event with every attribute right", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_fork_exec_exit_rel", Doc: "the executable of a relative path or a link is absolute", Run: with(lives), Shared: defaultQueue},
	{Name: "t_id_change", Doc: "user, group and session ids change", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_entry", Doc: "the entry leaders of logins and containers", Run: with(lives), Shared: defaultQueue},
	{Name: "t_stats", Doc: "counters start at zero and count right", Run: with(stats), Shared: defaultQueue},
	{Name: "t_exit_tgid", Doc: "a thread ends its group: one EXIT with the group's status", Run: with(lives), Shared: defaultQueue},
	{Name: "t_exit_signal", Doc: "the signal that ended a process", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_exit_core", Doc: "the core bit is set when a core was written", Run: with(lives), Shared: defaultQueue},
	{Name: "t_leader_exits_first", Doc: "EXIT comes with the last thread, not with the leader", Run: with(lives), Shared: defaultQueue},
	{Name: "t_exec", Doc: "several execs, scripts, programs without a file", Run: with(lives), Shared: defaultQueue},
	{Name: "t_exec_failed", Doc: "execs that fail, where they are asked for", Run: with(failedExecs)},
	{Name: "t_environ", Doc: "what is asked for of the environment, and no more", Run: with(environment)},
	{Name: "t_exec_nonleader", Doc: "another thread than the leader executes", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_comm", Doc: "a process renames itself", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_setuid_exec", Doc: "a set-id program has the ids of its file", Run: with(lives), Shared: defaultQueue},
	{Name: "t_namespace", Doc: "namespaces are those of the process", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_cgroup", Doc: "the cgroup is that of the process", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_login", Doc: "the login is that of the process", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_usage", Doc: "what a process has used is what its parent is told", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_live_after_exec", Doc: "a process that lives on after exec has its new state", Run: with(lives), Shared: defaultQueue},
	{Name: "t_ptrace", Doc: "a tracer attaches and detaches", Run: with(lives), Shared: defaultQueue},
	{Name: "t_long_args", Doc: "16 KB of arguments are whole, 100 KB marked as cut", Run: with(lives), Shared: defaultQueue},
	{Name: "t_deep_cwd", Doc: "deep working directories are right or marked as cut", Run: with(lives), Shared: defaultQueue},
	{Name: "t_mount_cwd", Doc: "working directories in mounts below mounts are whole", Run: with(lives), Shared: defaultQueue, Types: true},
	{Name: "t_deep_mount_cwd", Doc: "working directories deep in mounts are whole, or marked as cut after the end", Run: with(lives), Shared: defaultQueue},
	{Name: "t_chroot", Doc: "paths in another root", Run: with(lives), Shared: defaultQueue},
	{Name: "t_not_utf8", Doc: "names keep every byte", Run: with(lives), Shared: defaultQueue},
	{Name: "t_pid_reuse", Doc: "a pid that is used again is another process", Run: with(lives), Shared: defaultQueue},
	{Name: "t_no_threads", Doc: "threads are not reported unless asked for", Run: with(lives), Shared: defaultQueue},
	{Name: "t_threads", Doc: "threads are reported when asked for", Run: with(lives), Shared: defaultQueue},
	{Name: "t_min_agg", Doc: "FORK, EXEC and EXIT come one by one", Run: with(lives), Shared: defaultQueue},
	{Name: "t_storm_lives", Doc: "what is delivered of a storm is right, the rest is counted as lost", Run: with(lives), Shared: defaultQueue},
	{Name: "t_wake", Doc: "the first event after quiet wakes a reader that sleeps", Run: with(wakeUp), Shared: defaultQueue},
	{Name: "t_two_queues", Doc: "several queues at once work, and go on when another is closed", Run: with(twoQueues), Shared: defaultQueue},
	{Name: "t_cpu_hotplug", Doc: "a CPU goes and comes back, and its events with it", Run: with(cpuHotplug), Shared: defaultQueue},
	{Name: "t_storm", Doc: "under many events: produced = delivered + lost", Run: with(storm), Shared: defaultQueue},
	{Name: "t_loss", Doc: "with a stopped reader: produced = delivered + lost", Run: with(loss), Shared: tinyBuffers},
	{Name: "t_record_wrap", Doc: "records that go over the end of a ring are right", Run: with(recordWrap), Shared: tinyBuffers},
	{Name: "t_drop_privileges", Doc: "events keep coming without privileges", Run: with(dropPrivileges), Joint: true, Alone: true},
	{Name: "t_types_other", Doc: "types of other kernels are refused, or right", Run: with(otherTypes)},
	{Name: "t_types_file", Doc: "a file of types named by hand is used, and said", Run: with(typesFile)},
	{Name: "t_fallback", Doc: "the first backend that can be opened is, and the reasons of the others are said", Run: with(fallback), NoBackend: true},
	{Name: "t_types_archive", Doc: "the archive's types of this kernel are the kernel's", Run: with(archivedTypes), NoBackend: true},
	{Name: "t_exitsnoop", Doc: "quark-exitsnoop runs, traces, lists, waits and cleans", Run: with(exitsnoopCommand), NoBackend: true, Types: true},
}

// with gives a test its context, and skips backends that it does not test.
func with(f func(*test)) func(*testrun.T) {
	return func(t *testrun.T) {
		left := false
		for _, c := range t.Cells {
			c.Try(func() {
				if why := unsuited[c.Backend][t.Test.Name]; why != "" {
					c.Skipf("%s", why)
				}
				left = true
			})
		}
		if left || len(t.Cells) == 0 {
			f(&test{T: t})
		}
	}
}

// unsuited are the tests that do not test a backend, and the reasons.
var unsuited = map[string]map[string]string{
	"audit": {
		"t_stats":       "which of its events are joined depends on a coarse clock",
		"t_storm":       "it leaves out births that /proc does not show any more",
		"t_record_wrap": "it has no ring", "t_cpu_hotplug": "no record has a CPU", "t_types_other": noTypes, "t_types_file": noTypes,
		"t_drop_privileges": "it needs CAP_AUDIT_CONTROL to its end, to remove its rules",
	},
}

const (
	noTypes = "it needs no types"
)
