/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The layout of the pinned maps, version 1. They outlive the process that created them, so any
 * change of a map needs a new version with its own directory. A new map does not: running programs
 * work without it.
 */
#ifndef EXITSNOOP_ABI_H
#define EXITSNOOP_ABI_H

/* A process to be traced. The key is its pid in the initial namespace. */
struct task {
	__u64 trace_id;
	/* Its pid namespace: device in the kernel's encoding, and inode, 0 if unknown. */
	__u64 pidns_dev, pidns_ino;
	/* It started in [start_min, start_end), ns since boot. */
	__u64 start_min, start_end;
	/*
	 * Written by the program: the task_struct of the last leader that passed, and the number
	 * of leaders.
	 */
	__u64 leader, passes;
	/* Written by the program: a negative errno if the exit could not be stored. */
	__s32 lost;
	__u32 unused;
};

enum event_state {
	STATE_RESERVED = 1, /* created by Trace for the future exit */
	STATE_ENDED = 2,
	STATE_LOST = 3, /* the process has ended; its status is unknown */
};

/* How a process ended. The key is the trace id. */
struct exit_event {
	__u32 pid;
	__s32 exit_code; /* as in wait(2); in STATE_LOST a negative errno or 0 */
	__u64 start_boottime;
	__u64 exited_time; /* CLOCK_MONOTONIC, ns */
	__u64 stored_time; /* when the entry got its state, CLOCK_MONOTONIC, ns */
	enum event_state state;
	__u32 unused;
};

/*
 * A traced process of a tree, so its children are traced too. The key is its trace id. The entry
 * stays as long as the exit_event.
 */
struct member {
	__u64 tree; /* the trace id of the first process of the tree */
	__u64 parent; /* the trace id of the process that forked this one, 0 for the tree's first */
	/*
	 * Written by the program: the start time of the last child that could not be traced. The
	 * twin, which tries again, does not count it again.
	 */
	__u64 untraced;
};

/* Indices of the counters. */
enum counter {
	COUNT_RECORDED,
	COUNT_LOST,
	COUNT_WRONG_NAMESPACE,
	COUNT_WRONG_START,
	COUNT_REFUSED, /* by Trace, as a map was full */
	COUNT_UNSEEN, /* found by user space: ended unseen by the program */
	COUNTERS,
};

/* Indices of the counters of trees. */
enum tree_counter {
	COUNT_DESCENDANTS, /* traced by the program */
	COUNT_UNTRACED, /* not traced, as a map was full */
	TREE_COUNTERS,
};

#endif
