// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Records how the traced processes end, once for each thread group. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "abi.h"

char license_text[] SEC("license") = "Dual BSD/GPL";

/* Their sizes are set at load time. Preallocated, so that replacing an entry
 * cannot fail for lack of memory. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct task);
} tracing_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct exit_event);
} exited_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, enum counter);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* user space counts in it too, atomically */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter);
} pid_filter SEC(".maps");

#define ENOENT 2
#define SIGNAL_GROUP_EXIT 4 /* linux/sched/signal.h, since before 5.8 */

static __always_inline void count(enum counter index)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &index);

	if (n)
		(*n)++;
}

static __always_inline __u64 start_time(struct task_struct *task)
{
	__u64 start = 0;

	if (bpf_core_field_exists(task->start_boottime))
		bpf_core_read(&start, sizeof(start), &task->start_boottime);
	else if (bpf_core_field_exists(struct task_struct___real, real_start_time))
		bpf_core_read(&start, sizeof(start),
			      &((struct task_struct___real *)task)->real_start_time);
	return start;
}

/*
 * Whether this thread has to record the end of its group: none is alive, and the
 * leader, whose status may be the group's, has come by here. When threads end
 * together more than one may see that; they then record the same.
 */
static __always_inline int ends_group(struct task *t, struct task_struct *task,
				      struct task_struct *leader, struct signal_struct *signal)
{
	int live = 0, leader_state = 0;

	/* Which leader, as a thread that executes takes the place of the old
	 * one, which came by here: both exist then, so they differ. */
	if (task == leader) {
		t->leader = (__u64)leader;
		/* A full barrier: who sees live at 0 later must find the leader. */
		__sync_fetch_and_add(&t->passes, 1);
	}
	/* Counted down before the tracepoint on all kernels, 5.10 to 7.x. */
	if (bpf_core_read(&live, sizeof(live), &signal->live.counter) || live != 0)
		return 0;
	if (task != leader && t->leader != (__u64)leader) {
		/* Not come by, unless that was before it was traced. */
		bpf_core_read(&leader_state, sizeof(leader_state), &leader->exit_state);
		return leader_state != 0;
	}
	return 1;
}

/* The status of the group, as wait_task_zombie() has it. */
static __always_inline int group_status(struct task_struct *leader, struct signal_struct *signal, __s32 *status)
{
	unsigned int flags = 0;
	int err;

	err = bpf_core_read(&flags, sizeof(flags), &signal->flags);
	if (flags & SIGNAL_GROUP_EXIT)
		err |= bpf_core_read(status, sizeof(*status), &signal->group_exit_code);
	else
		err |= bpf_core_read(status, sizeof(*status), &leader->exit_code);
	return err;
}

/* More than one may find it lost: the twin, and threads that end together. */
static __always_inline void lose(struct task *t, int err)
{
	if (!t->lost)
		count(COUNT_LOST);
	t->lost = err;
}

static __always_inline void on_exit(struct task *t, struct task_struct *task, __u32 tgid, __u32 *traced, int twin)
{
	/* The entry may become another one's as soon as it is deleted. */
	__u64 id = t->trace_id, start_min = t->start_min, start_end = t->start_end;
	struct bpf_pidns_info info = {};
	struct task_struct *leader = 0;
	struct signal_struct *signal = 0;
	struct exit_event ended = {}, *e;
	int err;

	if (bpf_core_read(&leader, sizeof(leader), &task->group_leader) ||
	    bpf_core_read(&signal, sizeof(signal), &task->signal) || !leader || !signal) {
		lose(t, -ENOENT);
		return;
	}
	ended.start_boottime = start_time(leader);
	if (ended.start_boottime < start_min || ended.start_boottime >= start_end) {
		if (!twin)
			count(COUNT_WRONG_START);
		return;
	}
	if (bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &info, sizeof(info))) {
		if (!twin)
			count(COUNT_WRONG_NAMESPACE);
		return;
	}
	if (!ends_group(t, task, leader, signal))
		return;
	e = bpf_map_lookup_elem(&exited_events, &id);
	if (!e) {
		lose(t, -ENOENT);
		return;
	}
	if (e->state != STATE_RESERVED) /* another thread was first */
		return;
	ended.pid = tgid;
	ended.state = STATE_ENDED;
	ended.exited_time = bpf_ktime_get_ns();
	ended.stored_time = ended.exited_time;
	err = group_status(leader, signal, &ended.exit_code);
	if (!err)
		/* An int: before 6.4 the call goes to a kernel function that
		 * returns one, and the upper half of the register is anything. */
		err = (int)bpf_map_update_elem(&exited_events, &id, &ended, BPF_EXIST);
	if (err) {
		lose(t, err);
		return;
	}
	if ((int)bpf_map_delete_elem(&tracing_tasks, &tgid) == 0) {
		__sync_fetch_and_add(traced, -1);
		count(COUNT_RECORDED);
	}
}

static __always_inline int handle(struct bpf_raw_tracepoint_args *ctx, int twin)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct filter *filter = bpf_map_lookup_elem(&pid_filter, &zero);
	struct task *t;
	__u32 *traced;

	if (!filter)
		return 0;
	traced = &filter->traced[tgid % FILTER_SLOTS];
	if (!*traced)
		return 0;
	t = bpf_map_lookup_elem(&tracing_tasks, &tgid);
	if (t)
		on_exit(t, (struct task_struct *)ctx->args[0], tgid, traced, twin);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int handle_sched_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return handle(ctx, 0);
}

/*
 * The same again. The kernel skips a program that is in flight on the CPU, and from
 * Linux 7.0 on raw tracepoints are preemptible: while one task is preempted within
 * the first program, others that end on that CPU come by here only. Where both
 * run, this one finds the exit recorded.
 */
SEC("raw_tp/sched_process_exit")
int handle_sched_process_exit_twin(struct bpf_raw_tracepoint_args *ctx)
{
	return handle(ctx, 1);
}
