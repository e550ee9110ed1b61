package kprobe

import "github.com/quark-linux/quark/engine"

// hook is a kernel function that can be probed for a kind of event.
type hook struct {
	symbol string
	// config is the kernel option without which the function does not exist; "" for none.
	config string
	// args fetches values that only this function offers, or that the filters use. It may be
	// nil.
	args func(b *builder)
	// filter is an expression over the slots of args. Hits for which it is false are not
	// recorded. "" means no filter.
	filter string
	// threads is the filter for a source without the option Threads, or "" for none.
	threads string
	// since is the first Linux, such as 5.16, in which the hook has the final values; "" means
	// all.
	since string
	// tracepoint is set if symbol is a tracepoint of system calls and not a function.
	tracepoint bool
}

// family defines how to get the events of one kind: the values to fetch, and the hooks in order of
// preference. The first hook that the kernel accepts is used.
type family struct {
	kind  engine.Kind
	name  string // of the probes
	hooks []hook
	// state fetches the numbers, in the first probe. Each of texts has further probes.
	state func(b *builder, h *hook)
	texts []*text
	// before is set if the records are stages of an event instead of events, see execs.
	before bool
}

var (
	firstArgument  = argument(0)
	secondArgument = argument(1)
	thirdArgument  = argument(2)
)

// addProbedTask fetches the state of the task that is the function's first argument.
func addProbedTask(b *builder, _ *hook) {
	b.addTask(firstArgument)
	b.addComm(firstArgument, slotComm)
}

// families are all families. The required ones come first.
var families = []family{
	{
		kind: engine.KindFork, name: "fork",
		hooks: []hook{
			{symbol: "wake_up_new_task", args: addExitSignal, threads: filterLeader},
		},
		state: func(b *builder, h *hook) {
			addProbedTask(b, h)
			b.addMember(slotParentTID, typeU32, firstArgument, "task_struct.real_parent", "task_struct.pid")
		},
		texts: []*text{cwd, cgroup},
	},
	{
		kind: engine.KindExec, name: "exec",
		hooks: []hook{
			{symbol: "proc_exec_connector", config: "CONFIG_PROC_EVENTS"},
		},
		state: func(b *builder, h *hook) {
			addProbedTask(b, h)
			b.addArguments()
			b.addExecutable()
			b.addStdio()
		},
		texts: []*text{cmdline, filename, cwd, cgroup},
	},
	{
		kind: engine.KindExit, name: "exit",
		hooks: []hook{
			// The second argument is not 0 for exactly one thread of a group, the last
			// one. At this point the thread still has its memory. In older kernels, a
			// core dump of another process with the same memory can set the status
			// until the memory is released.
			{symbol: "taskstats_exit", config: "CONFIG_TASKSTATS", args: addGroupDead, threads: filterEnds, since: "5.16"},
			// Every kernel has this function. Several threads can see that none is
			// alive. A failing fork calls it, too, for the task that it discards.
			{symbol: "exit_files", args: addLiveAndExiting, filter: filterExiting, threads: filterExiting + "&&(" + filterMayEnd + ")"},
		},
		state: addExitState,
	},
	{
		kind: engine.KindSetProcTitle, name: "comm",
		hooks: []hook{
			{symbol: "__set_task_comm", args: addNewComm, filter: filterNotExec},
		},
		state: func(b *builder, _ *hook) { b.addTask(firstArgument) },
	},
	{
		kind: engine.KindIDChange, name: "ids",
		hooks: []hook{{symbol: "proc_id_connector", config: "CONFIG_PROC_EVENTS", args: addIDKind}},
		state: addProbedTask,
	},
	{
		kind: engine.KindIDChange, name: "sid",
		hooks: []hook{{symbol: "proc_sid_connector", config: "CONFIG_PROC_EVENTS"}},
		state: addProbedTask,
	},
	{
		kind: engine.KindNSChange, name: "ns",
		hooks: []hook{{symbol: "switch_task_namespaces", args: addNSArgs, filter: filterNewNS, threads: filterNewNS + "&&" + filterLeader}},
		// The task still has its old namespaces. The second argument has the new ones.
		state: func(b *builder, _ *hook) {
			b.addState(firstArgument, secondArgument)
			b.addComm(firstArgument, slotComm)
			b.addNSChange()
		},
	},
	{
		kind: engine.KindIDChange, name: "pgid",
		hooks: []hook{
			// change_pid(pids, task, type, pid)
			{symbol: "change_pid", since: "6.15", args: addChangedPID(1), filter: filterPGID},
			// change_pid(task, type, pid)
			{symbol: "change_pid", args: addChangedPID(0), filter: filterPGID},
		},
		state: func(b *builder, _ *hook) { b.addTask(b.task()) },
	},
	{
		kind: engine.KindPtrace, name: "ptrace",
		hooks: []hook{{symbol: "proc_ptrace_connector", config: "CONFIG_PROC_EVENTS", args: addPtraceRequest, threads: filterLeader}},
		// The tracee may be running, so only its identity is read.
		state: func(b *builder, _ *hook) { b.addIdentity() },
	},
	{
		kind: engine.KindCgroupChange, name: "move",
		// The kernel calls the function for each thread that it has moved in any hierarchy,
		// with the cgroups of cgroup v2.
		hooks: []hook{{symbol: "cgroup_freezer_migrate_task", args: addCgroups, filter: filterLeader, since: "5.2"}},
		state: func(b *builder, _ *hook) { b.addIdentity() },
		texts: []*text{cgroup},
	},
	newExecStage(hook{symbol: "sys_enter_execve", tracepoint: true}),
	newExecStage(hook{symbol: "sys_enter_execveat", tracepoint: true}),
	// alloc_bprm(dir, filename), Linux 5.8
	newExecStage(hook{symbol: "alloc_bprm", args: func(b *builder) { b.add(slotDir, typeS32, firstArgument) }}),
	// Linux 7.3 has only perf_event_exec. Between the two functions a call can fail only for
	// lack of memory.
	newExecStage(hook{symbol: "exec_mm_release"}, hook{symbol: "perf_event_exec"}),
	newExecStage(hook{symbol: "sys_exit_execve", tracepoint: true, args: addResult}),
	newExecStage(hook{symbol: "sys_exit_execveat", tracepoint: true, args: addResult}),
}

// newExecStage returns the family for the records of one stage of execs, see execs.
func newExecStage(hooks ...hook) family {
	f := family{kind: engine.KindExecFailed, name: hooks[0].symbol, hooks: hooks, state: func(*builder, *hook) {}}
	switch f.before = true; f.name {
	case "alloc_bprm":
		f.texts = []*text{execPath}
	case "sys_exit_execve", "sys_exit_execveat":
		f.before = false
	}
	return f
}

func addResult(b *builder) { b.add(slotResult, typeX64, firstArgument) }

const (
	familyFork = iota
	familyExec
	familyExit
	familyComm
	familyIDs
	familySID
	familyNS
	familyPGID
	familyPtrace
	familyCgroup
	familyExecBegins
	familyExecAtBegins
	familyExecPath
	familyExecNoReturn
	familyExecEnds
	familyExecAtEnds
	numFamilies = iota
)

func addExitSignal(b *builder) {
	b.addMember(slotExitSignal, typeS32, firstArgument, "task_struct.exit_signal")
}

// addPtraceRequest fetches the argument which of proc_ptrace_connector(task, which): PTRACE_ATTACH
// or PTRACE_DETACH.
func addPtraceRequest(b *builder) {
	addExitSignal(b)
	b.add(slotRequest, typeU32, secondArgument)
}

// addChangedPID fetches the arguments of change_pid from the n-th on: the task, the type of the
// pid, and the pid.
func addChangedPID(n int) func(b *builder) {
	return func(b *builder) {
		b.of = argument(n)
		b.add(slotPIDType, typeU32, argument(n+1))
		b.addMember(slotNewPGID, typeU32, argument(n+2), "pid.numbers+upid.nr")
	}
}

func addCgroups(b *builder) {
	addExitSignal(b)
	b.add(slotFromCgroup, typeX64, secondArgument)
	b.add(slotToCgroup, typeX64, thirdArgument)
}

func addGroupDead(b *builder) {
	addExitSignal(b)
	b.add(slotGroupDead, typeS32, secondArgument)
}

func addLiveAndExiting(b *builder) {
	addExitSignal(b)
	b.addMember(slotLive, typeS32, firstArgument, "task_struct.signal", "signal_struct.live.counter")
	b.addMember(slotExiting, typeExiting, firstArgument, "task_struct.flags")
}

// addExitState fetches the state of the process from its leader. For an EXIT of a thread it also
// fetches the thread's own state.
func addExitState(b *builder, _ *hook) {
	leader := b.follow(firstArgument, "task_struct.group_leader")
	b.addTask(leader)
	b.addComm(leader, slotComm)
	b.addMember(slotSignalFlags, typeU32, firstArgument, "task_struct.signal", "signal_struct.flags")
	b.addMember(slotGroupCode, typeS32, firstArgument, "task_struct.signal", "signal_struct.group_exit_code")
	b.addReboots(leader)
	b.addMember(slotLeaderCode, typeS32, leader, "task_struct.exit_code")
	b.addMember(slotLeaderState, typeU32, leader, "task_struct.exit_state")
	b.addMember(slotOwnCode, typeS32, firstArgument, "task_struct.exit_code")
	// Fetch the number of threads first: if only the ending thread and its leader remain, no
	// thread is released before the later fetches.
	signal := b.follow(firstArgument, "task_struct.signal")
	b.addMember(slotThreads, typeU32, signal, "signal_struct.nr_threads")
	b.add(slotTask, typeX64, firstArgument)
	b.addMember(slotSubreapers, typeU32, signal, "signal_struct.is_child_subreaper")
	b.addMember(slotChildren, typeX64, firstArgument, "task_struct.children")
	b.addUse(slotOwnUse, firstArgument, false)
	b.addUse(slotLeaderUse, leader, false)
	b.addUse(slotReleasedUse, signal, true)
	b.addRow(slotShownTimes, typeX64, signal, "signal_struct.prev_cputime.utime", "signal_struct.prev_cputime.stime")
	b.addMember(slotPeakRSS, typeX64, signal, "signal_struct.maxrss")
	b.addRow(slotChildTimes, typeX64, signal, "signal_struct.cutime", "signal_struct.cstime")
	b.addMember(slotChildRSS, typeX64, signal, "signal_struct.cmaxrss")
	if b.threads {
		b.addComm(firstArgument, slotOwnComm)
		b.addCredentials(b.follow(firstArgument, "task_struct.real_cred"), slotOwnUID, slotOwnCapInheritable)
	}
}

// addNewComm fetches the buffer of __set_task_comm(task, buffer, exec), because the task still has
// the old comm.
func addNewComm(b *builder) {
	b.add(slotByExec, typeU8, thirdArgument)
	b.addArray(slotComm, typeX64, secondArgument.at(0), 2)
}

// addIDKind fetches the arguments of proc_id_connector(task, which), and the owner of the mutex
// that shows whether the task executes a program.
func addIDKind(b *builder) {
	b.add(slotWhichID, typeU32, secondArgument)
	addExecOwner(b)
}

func addNSArgs(b *builder) {
	addExitSignal(b)
	addExecOwner(b)
}

// addExecOwner fetches the address of the task, and the owner of the mutex.
func addExecOwner(b *builder) {
	b.add(slotTask, typeX64, firstArgument)
	b.addMember(slotExecOwner, typeX64, firstArgument, "task_struct.signal", "signal_struct.cred_guard_mutex+mutex.owner")
}

// The kernel applies these filters to records. Only the leader of a group has an exit signal, the
// other threads have -1.
var (
	filterLeader  = slotExitSignal.name() + ">=0"
	filterEnds    = slotGroupDead.name() + "!=0||" + filterLeader
	filterMayEnd  = slotLive.name() + "==0||" + filterLeader
	filterExiting = slotExiting.name() + "!=0"
	filterPGID    = slotPIDType.name() + "==2" // PIDTYPE_PGID, linux/pid.h since 4.19
	filterNotExec = slotByExec.name() + "==0"
	filterNewNS   = slotNSProxy.name() + "!=0" // else the task ends
)
