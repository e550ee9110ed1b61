/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Twin programs: each event has two programs, and one of them handles it. Since 6.1 the kernel
 * skips a program while the same program runs on the same CPU (recursion_misses in bpf_prog_info),
 * and from 7.0 on, as with PREEMPT_RT, raw tracepoints are preemptible. A program that is preempted
 * half way would therefore make the next task on that CPU lose its event:
 *
 *   on one CPU       time ------------------------------------------------------------>
 *   task A           first program: marks A, handles A                ..A handled; twin: A is
 *                                             |                       |  marked, skips it
 *   task B                                    preempts A;             |
 *                                             first program: skipped; |
 *                                             twin: B is not marked, handles B
 *
 * If the twin is preempted, too, it would be skipped as well. So from 7.0 on, second programs run
 * where the kernel does not preempt:
 *
 *   fork         raw tracepoint sched_wakeup_new, with interrupts disabled, right after
 *                sched_process_fork. It is never skipped.
 *   exec, exit   a perf event on the same tracepoint, with preemption disabled. The kernel skips it
 *                only while another program of a perf event, or bpf(2), runs on the CPU.
 *   comm         the same raw tracepoint
 *
 * With PREEMPT_RT before 7.0 they are on the same raw tracepoint. Other kernels before 7.0 preempt
 * no program of a raw tracepoint: there the handler is the only one, and never skipped. The
 * counters say what both programs had to leave:
 *
 *   passed     events that the first program saw and left to the second
 *   rescued    events that the second handled
 *   lost     = recursion_misses of the first program + passed - rescued
 */
#ifndef QUARK_TWIN_H
#define QUARK_TWIN_H

/*
 * Forks and comms: the second program always comes after the first. The first marks the event, and
 * the second handles one without a mark, or removes it. The key is the address of the event's task,
 * with the kind in the low bits that are 0 by alignment. An event between the two attachments
 * leaves its mark behind. If the kernel skips the first program for a later task at that address,
 * the second mistakes the mark for the later task's: the event is counted as lost.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u8);
} taken SEC(".maps");

/* First program: whether it handles the event. */
static __always_inline int take_first(void *task, enum event_kind kind)
{
	__u64 key = (__u64)task | kind;
	__u8 yes = 1;

	if ((int)bpf_map_update_elem(&taken, &key, &yes, BPF_ANY) == 0)
		return 1;
	COUNT(kind, passed);
	return 0;
}

/* Second program: whether it handles the event. */
static __always_inline int take_second(void *task, enum event_kind kind)
{
	__u64 key = (__u64)task | kind;

	/* Only ENOENT says that there is no mark. After another error, such as a lock that is
	 * held, there most likely is one. */
	if ((int)bpf_map_delete_elem(&taken, &key) != -ENOENT)
		return 0;
	COUNT(kind, rescued);
	return 1;
}

/*
 * The handlers by kind. The two programs tail-call the handler, so that the verifier, which takes
 * most of the time of opening the source, checks it once and not twice.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, EVENT_KINDS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} handlers SEC(".maps");

/*
 * Execs and exits: with a perf event, which of the two programs runs first depends on who else uses
 * the tracepoint. So either can claim the event, and the other one removes the claim.
 */
struct claim {
	__u64 task, start;
	__u64 exec; /* task->self_exec_id, which each exec increments; ~0 for an exit */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct claim);
	__type(value, __u8);
} claims SEC(".maps");

/* Returns 0 for the program that claims the event, and an error for the other one. */
static __always_inline int claim(struct task_struct *task, enum event_kind kind)
{
	struct claim key = { (__u64)task, start_time(task), ~0ULL };
	__u8 yes = 1;
	int err;

	if (kind == EVENT_EXEC && bpf_core_field_exists(task->self_exec_id))
		bpf_core_read(&key.exec, sizeof(key.exec), &task->self_exec_id);
	/* The two programs never run at the same time for one event. So this is the same as to try
	 * the update first, and cheaper. */
	err = bpf_map_delete_elem(&claims, &key);
	if (err == -ENOENT)
		return bpf_map_update_elem(&claims, &key, &yes, BPF_NOEXIST);
	return err ? err : -EEXIST; /* both programs have run */
}

/* First program: whether it handles the event. */
static __always_inline int claim_first(struct task_struct *task, enum event_kind kind)
{
	if (!claim(task, kind))
		return 1;
	COUNT(kind, passed);
	return 0;
}

/* Second program: whether it handles the event. */
static __always_inline int claim_second(struct task_struct *task, enum event_kind kind)
{
	/* After any error the other program most likely has the claim, as in take_second. */
	if (claim(task, kind))
		return 0;
	COUNT(kind, rescued);
	return 1;
}

#endif
