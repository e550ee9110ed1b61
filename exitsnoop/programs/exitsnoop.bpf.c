// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Records the end of traced processes, once for each thread group, and traces their descendants. */
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

/* As many entries as exited_events. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct member);
} tree_members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TREE_COUNTERS);
	__type(key, enum tree_counter);
	__type(value, __u64);
} tree_counters SEC(".maps");

static __always_inline void count_in(void *map, __u32 index)
{
	__u64 *n = bpf_map_lookup_elem(map, &index);

	if (n)
		(*n)++;
}

static __always_inline void count(enum counter index)
{
	count_in(&counters, index);
}

/*
 * A thread that calls execve replaces the old leader, which has passed. Both exist at that time,
 * so their addresses differ.
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

static __always_inline void on_exit(struct task *t, struct task_struct *task, __u32 tgid, int twin)
{
	/* Copies: once the entry is deleted, another process can reuse its memory. */
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
	if (t->pidns_ino && bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &info, sizeof(info))) {
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
	if ((int)bpf_map_delete_elem(&tracing_tasks, &tgid) == 0)
		count(COUNT_RECORDED);
}

static __always_inline int handle_exit(struct task_struct *task, int twin)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct task *t = bpf_map_lookup_elem(&tracing_tasks, &tgid);

	if (t)
		on_exit(t, task, tgid, twin);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int handle_sched_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	return handle_exit((struct task_struct *)ctx->args[0], 0);
}

/*
 * The twin: it handles the exits for which the kernel skips the first program, see
 * backends/ebpf/programs/twin.h. It needs no mark: if both run, the twin finds the exit already
 * recorded.
 */
SEC("raw_tp/sched_process_exit")
int handle_sched_process_exit_twin(struct bpf_raw_tracepoint_args *ctx)
{
	return handle_exit((struct task_struct *)ctx->args[0], 1);
}

/*
 * The twin if raw tracepoints can be preempted: on a perf event, which cannot. It returns 1, as 0
 * would hide the record from all other readers of the tracepoint by perf_event_open(2).
 */
SEC("tracepoint/sched/sched_process_exit")
int handle_sched_process_exit_perf(void *ctx)
{
	handle_exit((struct task_struct *)bpf_get_current_task(), 1);
	return 1;
}

/* The inode of a new process's pid namespace, 0 if unknown. Its children may be in others later. */
static __always_inline __u64 pid_namespace_of(struct task_struct *child)
{
	struct nsproxy *proxy = 0;
	struct pid_namespace *ns = 0;
	__u32 inum = 0;

	if (!bpf_core_field_exists(proxy->pid_ns_for_children) || !bpf_core_field_exists(ns->ns.inum) ||
	    bpf_core_read(&proxy, sizeof(proxy), &child->nsproxy) ||
	    bpf_core_read(&ns, sizeof(ns), &proxy->pid_ns_for_children) ||
	    bpf_core_read(&inum, sizeof(inum), &ns->ns.inum))
		return 0;
	return inum;
}

/*
 * Trace a child, which has not run yet, as a member of its parent's tree. Returns 0, also if it is
 * already traced, or an error without any change.
 */
static __always_inline int trace_child(struct task *parent, struct member *born, struct task_struct *child, __u32 pid)
{
	__u64 id = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32() | 1ULL << 63;
	__u64 start = start_time(child);
	struct task t = {
		.trace_id = id,
		.pidns_dev = parent->pidns_dev,
		.pidns_ino = pid_namespace_of(child),
		.start_min = start,
		.start_end = start + 1,
	};
	struct exit_event reserved = { .pid = pid, .stored_time = bpf_ktime_get_ns(), .state = STATE_RESERVED };
	struct task *old = bpf_map_lookup_elem(&tracing_tasks, &pid);
	int err;

	if (old && old->start_min <= start && start < old->start_end) {
		/* By the first program, or by a call of Trace that has just found it. */
		id = old->trace_id;
		err = (int)bpf_map_update_elem(&tree_members, &id, born, BPF_NOEXIST);
		return err == -EEXIST ? 0 : err;
	}
	/* Another entry belongs to an earlier process with an unseen end. */
	if (old)
		bpf_map_delete_elem(&tracing_tasks, &pid);
	err = (int)bpf_map_update_elem(&tree_members, &id, born, BPF_NOEXIST);
	if (err)
		return err;
	err = (int)bpf_map_update_elem(&tracing_tasks, &pid, &t, BPF_NOEXIST);
	if (!err) {
		/* Last, so that a reader who finds the event finds the others too. */
		err = (int)bpf_map_update_elem(&exited_events, &id, &reserved, BPF_NOEXIST);
		if (!err) {
			count_in(&tree_counters, COUNT_DESCENDANTS);
			return 0;
		}
		bpf_map_delete_elem(&tracing_tasks, &pid);
	}
	bpf_map_delete_elem(&tree_members, &id);
	return err;
}

static __always_inline int handle_fork(struct task_struct *parent, struct task_struct *child)
{
	struct task_struct *leader = 0;
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, pid;
	struct task *t = bpf_map_lookup_elem(&tracing_tasks, &tgid);
	struct member born = {}, *m;
	__u64 id, start;

	if (!t)
		return 0;
	pid = tgid_of(child);
	if (tid_of(child) != pid)
		return 0;
	id = t->trace_id;
	m = bpf_map_lookup_elem(&tree_members, &id);
	if (!m || bpf_core_read(&leader, sizeof(leader), &parent->group_leader))
		return 0;
	start = start_time(leader);
	if (start < t->start_min || start >= t->start_end)
		return 0;
	born.tree = m->tree;
	born.parent = id;
	start = start_time(child);
	if (trace_child(t, &born, child, pid) && m->untraced != start) {
		m->untraced = start;
		count_in(&tree_counters, COUNT_UNTRACED);
	}
	return 0;
}

SEC("raw_tp/sched_process_fork")
int handle_sched_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	return handle_fork((struct task_struct *)ctx->args[0], (struct task_struct *)ctx->args[1]);
}

/*
 * The second program for forks: the parent wakes the child right after sched_process_fork, with
 * interrupts disabled, so this program is never skipped. If the first one has run, it finds the
 * child traced.
 */
SEC("raw_tp/sched_wakeup_new")
int handle_sched_wakeup_new(struct bpf_raw_tracepoint_args *ctx)
{
	return handle_fork((struct task_struct *)bpf_get_current_task(), (struct task_struct *)ctx->args[0]);
}
