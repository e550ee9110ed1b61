/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The layout of what is pinned, version 1. It outlives the process that made it,
 * so a change of anything here is a new version with a directory of its own.
 */
#ifndef EXITSNOOP_ABI_H
#define EXITSNOOP_ABI_H

/* A process whose end is to be recorded. Its key is the pid in the initial namespace. */
struct task {
	__u64 trace_id;
	/* Its pid namespace, the device as the kernel numbers it. */
	__u64 pidns_dev, pidns_ino;
	/* It started in [start_min, start_end), ns since boot. */
	__u64 start_min, start_end;
	/* Written by the program: the task_struct of the leader that came by last. */
	__u64 leader, passes;
	/* Written by the program: why the exit could not be stored, a negative errno. */
	__s32 lost;
	__u32 unused;
};

enum event_state {
	STATE_RESERVED = 1, /* room made by Trace for an exit yet to come */
	STATE_ENDED = 2,
	STATE_LOST = 3, /* it has ended, nobody knows how */
};

/* How a process ended. The key is the trace id. */
struct exit_event {
	__u32 pid;
	__s32 exit_code; /* as wait(2) has it; in STATE_LOST a negative errno or 0 */
	__u64 start_boottime;
	__u64 exited_time; /* CLOCK_MONOTONIC, ns */
	__u64 stored_time; /* when the entry got its state, CLOCK_MONOTONIC, ns */
	enum event_state state;
	__u32 unused;
};

/*
 * How many processes may be traced whose pid has this remainder: as many as there
 * are, or more. Most exits are of processes that nobody traces, and this is one
 * look at memory that is likely to be in the cache, where tracing_tasks is several
 * that are not. So it is counted up before an entry is made, and down after it
 * was deleted, by who did delete it. Too high a count costs time and does no harm.
 */
#define FILTER_SLOTS 32768 /* the pids there are unless kernel.pid_max is raised */

struct filter {
	__u32 traced[FILTER_SLOTS];
};

/* Indices of the counters. */
enum counter {
	COUNT_RECORDED,
	COUNT_LOST,
	COUNT_WRONG_NAMESPACE,
	COUNT_WRONG_START,
	COUNT_REFUSED, /* by Trace, as a map was full */
	COUNT_UNSEEN, /* found by user space: ended, and the program did not see it */
	COUNTERS,
};

#endif
