/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Twin programs: each raw tracepoint has its program attached twice, and one of the two handles an
 * event. Since 6.1 the kernel skips a program while the same program runs on the same CPU
 * (recursion_misses in bpf_prog_info), and from 7.0 on raw tracepoints are preemptible. A program
 * that is preempted half way would therefore make the next task on that CPU lose its event:
 *
 *   on one CPU       time ------------------------------------------------------------>
 *   task A           first program: marks A, handles A                ..A handled; twin: A is
 *                                             |                       |  marked, nothing to do
 *   task B                                    preempts A;             |
 *                                             first program: skipped; |
 *                                             twin: B is not marked, handles B
 *
 * The kernel runs the programs of a tracepoint in the order in which they were attached, so
 * user space attaches the first program before its twin (type hook in attach.go). The first
 * program marks the event as taken; the twin handles an event that is not marked, and removes
 * the mark of one that is.
 *
 *   passed     events that the first program saw but could not mark, and so left to the twin
 *   rescued    events that the twin handled
 *   lost     = recursion_misses of the first program + passed - rescued
 *
 * Exits use claims instead of marks, see below.
 */
#ifndef QUARK_TWIN_H
#define QUARK_TWIN_H

/*
 * The marks: events that a first program has taken and whose twin has not run yet. The key is the
 * address of the event's task, with the kind in the low bits that are 0 by alignment.
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

/* Twin: whether it handles the event. */
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
 * Exits. The threads of a process that ends are woken together, and preempt each other in both
 * programs more often than other tasks do. So from 7.0 on the second program for exits is one of a
 * perf event on the same tracepoint, which runs with preemption disabled: the kernel skips it only
 * while another program of a perf event runs on the CPU. Which of the two runs first depends on who
 * else uses the tracepoint. So either can claim an exit; each thread has one.
 */
struct exiting_thread {
	__u64 task;
	__u64 start;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct exiting_thread);
	__type(value, __u8);
} claims SEC(".maps");

/* Returns 0 for the program that claims the exit, and an error for the other one. */
static __always_inline int claim(struct task_struct *task)
{
	struct exiting_thread key = { (__u64)task, start_time(task) };
	__u8 yes = 1;
	int err = bpf_map_update_elem(&claims, &key, &yes, BPF_NOEXIST);

	if (err == -EEXIST)
		bpf_map_delete_elem(&claims, &key); /* both programs have run */
	return err;
}

/* First program of exits: whether it handles this one. */
static __always_inline int claim_first(struct task_struct *task)
{
	if (!claim(task))
		return 1;
	COUNT(EVENT_EXIT, passed);
	return 0;
}

/* Second program of exits: whether it handles this one. */
static __always_inline int claim_second(struct task_struct *task)
{
	/* After any error the other program most likely has the claim, as in take_second. */
	if (claim(task))
		return 0;
	COUNT(EVENT_EXIT, rescued);
	return 1;
}

#endif
