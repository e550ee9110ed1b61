// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Records how the traced processes end, once for each thread group. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "task.h"
#include "abi.h"

char license_text[] SEC("license") = "Dual BSD/GPL";

/* The sizes of these two are set at load time. They are preallocated, so that an update of an entry
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

static __always_inline void count(enum counter index)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &index);

	if (n)
		(*n)++;
}

/*
 * A thread that calls execve takes the place of the old leader, which has passed. Both exist
 * then, so that their addresses differ.
 */
static __always_inline void remember_leader(void *group, struct task_struct *leader)
{
	struct task *t = group;

	t->leader = (__u64)leader;
	__sync_fetch_and_add(&t->passes, 1); /* a full barrier before live is read */
}

static __always_inline int leader_passed(void *group, struct task_struct *leader)
{
	return ((struct task *)group)->leader == (__u64)leader;
}

/* Count the process as lost, once: its twin and threads that end together come here too. */
static __always_inline void lose(struct task *t, int err)
{
	if (!t->lost)
		count(COUNT_LOST);
	t->lost = err;
}

static __always_inline void on_exit(struct task *t, struct task_struct *task, __u32 tgid, __u32 *traced, int twin)
{
	/* Copies: once the entry is deleted, its memory can become that of another process. */
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
	if (ends_group(task, leader, signal, t) != GROUP_ENDED)
		return;
	e = bpf_map_lookup_elem(&exited_events, &id);
	if (!e) {
		lose(t, -ENOENT);
		return;
	}
	if (e->state != STATE_RESERVED) /* another thread, or the first program, has recorded it */
		return;
	ended.pid = tgid;
	ended.state = STATE_ENDED;
	ended.exited_time = bpf_ktime_get_ns();
	ended.stored_time = ended.exited_time;
	err = group_status(leader, signal, &ended.exit_code);
	if (!err)
		/* The cast: before 6.4 the helper is a kernel function that returns an int, and the
		 * upper half of the register is undefined. */
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
 * The twin: it handles the exits for which the kernel skips the first program, see
 * backends/ebpf/programs/twin.h. It needs no mark: where both run, the twin finds the exit
 * recorded.
 */
SEC("raw_tp/sched_process_exit")
int handle_sched_process_exit_twin(struct bpf_raw_tracepoint_args *ctx)
{
	return handle(ctx, 1);
}
