/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Each raw tracepoint has its program attached twice, and one of the two
 * handles an event. For since 6.1 the kernel skips a program while the same one
 * runs on the same CPU, and from 7.0 on raw tracepoints are preemptible: a
 * program that is preempted half way makes the next task on that CPU lose its
 * event (recursion_misses in bpf_prog_info). The twin, which runs right after,
 * takes what the first had to leave. User space attaches the first one first.
 * Exits differ, see below.
 * What both had to leave is lost: the first one's misses and passed, less rescued.
 */
#ifndef QUARK_TWIN_H
#define QUARK_TWIN_H

#define EEXIST 17

/* Events that a first program has taken and its twin has not passed yet. The
 * key is a task's address with the kind in the bits that alignment leaves. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u8);
} taken SEC(".maps");

/* First program: take the event; where that fails the twin will. */
static __always_inline int take_first(void *task, enum event_kind kind)
{
	__u64 key = (__u64)task | kind;
	__u8 yes = 1;

	if ((int)bpf_map_update_elem(&taken, &key, &yes, BPF_ANY) == 0)
		return 1;
	COUNT(kind, passed);
	return 0;
}

/* Twin: take the event if the first program did not. */
static __always_inline int take_second(void *task, enum event_kind kind)
{
	__u64 key = (__u64)task | kind;

	/* Any other error than that it is not there, such as a lock that is
	 * held, says nothing: then the first one has most likely taken it. */
	if ((int)bpf_map_delete_elem(&taken, &key) != -2 /* ENOENT */)
		return 0;
	COUNT(kind, rescued);
	return 1;
}

/* What handles the events of a kind, once one of the two has taken them. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, EVENT_KINDS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} handlers SEC(".maps");

/*
 * Define the program NAME_handler: handle(ctx) runs for the events of a kind, or of
 * two. Programs call it by its place in the map, so that the verifier, which takes
 * most of the time that opening takes, looks at it once.
 */
#define HANDLER(name, tracepoint, handle)                                 \
	SEC("raw_tp/" tracepoint)                                         \
	int name##_handler(struct bpf_raw_tracepoint_args *ctx)           \
	{                                                                 \
		handle(ctx);                                              \
		return 0;                                                 \
	}

/*
 * Define the programs NAME and NAME_twin on a tracepoint: one of the two calls the
 * handler for the event of the task that is argument n.
 */
#define TWINS(name, tracepoint, kind, n)                                  \
	SEC("raw_tp/" tracepoint)                                         \
	int name(struct bpf_raw_tracepoint_args *ctx)                     \
	{                                                                 \
		if (take_first((void *)ctx->args[n], kind))               \
			bpf_tail_call(ctx, &handlers, kind);              \
		return 0;                                                 \
	}                                                                 \
	SEC("raw_tp/" tracepoint)                                         \
	int name##_twin(struct bpf_raw_tracepoint_args *ctx)              \
	{                                                                 \
		if (take_second((void *)ctx->args[n], kind))              \
			bpf_tail_call(ctx, &handlers, kind);              \
		return 0;                                                 \
	}

/*
 * The threads of a process that ends are woken together, and preempt each other in
 * both programs more often than others do. So from 7.0 on the second program for
 * exits is one of a perf event on the same tracepoint, which runs with preemption
 * disabled: the kernel skips it only while other such programs run on the CPU. Which
 * of the two comes first depends on who else uses the tracepoint. So either can claim
 * an end, of which a thread has one.
 */
struct ending {
	__u64 task;
	__u64 start;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct ending);
	__type(value, __u8);
} endings SEC(".maps");

/* Returns 0 for who claims the end, and an error for who finds it claimed. */
static __always_inline int claim(struct task_struct *task)
{
	struct ending key = { (__u64)task, start_time(task) };
	__u8 yes = 1;
	int err = bpf_map_update_elem(&endings, &key, &yes, BPF_NOEXIST);

	if (err == -EEXIST)
		bpf_map_delete_elem(&endings, &key); /* both came by */
	return err;
}

static __always_inline int claim_first(struct task_struct *task)
{
	if (!claim(task))
		return 1;
	COUNT(EVENT_EXIT, passed);
	return 0;
}

static __always_inline int claim_second(struct task_struct *task)
{
	/* For any other error than that it is claimed see take_second. */
	if (claim(task))
		return 0;
	COUNT(EVENT_EXIT, rescued);
	return 1;
}

#endif
