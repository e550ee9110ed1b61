/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reading a task_struct: identity, and the end of its thread group. */
#ifndef QUARK_TASK_H
#define QUARK_TASK_H

static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

static __always_inline __u32 tgid_of(struct task_struct *task)
{
	__u32 tgid = 0;

	bpf_core_read(&tgid, sizeof(tgid), &task->tgid);
	return tgid;
}

static __always_inline __u32 tid_of(struct task_struct *task)
{
	__u32 tid = 0;

	bpf_core_read(&tid, sizeof(tid), &task->pid);
	return tid;
}

/* CLOCK_BOOTTIME ns at which the task was created, 0 if the kernel's types have no such member. */
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
 * The end of a thread group.
 *
 * sched_process_exit runs in each thread that ends, after the kernel has decremented signal->live
 * (true from 5.10 to 7.x). The last thread reads live == 0. Two cases need care:
 *
 *  1. The exit status of the group may be its leader's, which is final only after the leader
 *     itself has passed the tracepoint. So the first thread that reads live == 0 after the leader
 *     has passed ends the group. If the leader has not passed yet, it ends the group.
 *  2. Threads that end at the same time can all read live == 0. The caller must detect the first
 *     of them, or tolerate a second report.
 *
 *     leader     live 3 -> 2, passes: 2, no end
 *     thread 2                           live 2 -> 1,              passes: 0, end
 *     thread 3                                        live 1 -> 0,             passes: 0, end
 */
enum group_end {
	GROUP_LIVES, /* a thread of the group is alive */
	LEADER_TO_COME, /* no thread is alive, and the leader will end the group when it passes */
	GROUP_ENDED, /* the caller's task ends the group, perhaps together with others */
};

/* A program defines these two: how it records that a leader has passed. */
static __always_inline void remember_leader(void *group, struct task_struct *leader);
static __always_inline int leader_passed(void *group, struct task_struct *leader);

/* The state of the group at the time that task, one of its threads, passes the tracepoint. */
static __always_inline enum group_end ends_group(struct task_struct *task, struct task_struct *leader,
						 struct signal_struct *signal, void *group)
{
	int live = 0, leader_state = 0;

	if (task == leader) /* before live is read: whoever sees 0 later must find it */
		remember_leader(group, leader);
	if (bpf_core_read(&live, sizeof(live), &signal->live.counter) || live != 0)
		return GROUP_LIVES;
	if (task == leader || leader_passed(group, leader))
		return GROUP_ENDED;
	/* The leader may have passed before the program was attached. */
	bpf_core_read(&leader_state, sizeof(leader_state), &leader->exit_state);
	return leader_state ? GROUP_ENDED : LEADER_TO_COME;
}

#define SIGNAL_GROUP_EXIT 4 /* linux/sched/signal.h, unchanged since before 5.8 */

/*
 * The signal that reboot(2) in a pid namespace has set, if leader is of its init: the kernel makes
 * it the status later, in zap_pid_ns_processes(). 0: there is none. -1: the kernel's types lack it.
 * What can't be read is 0: fewer branches are less work for the verifier.
 */
static __always_inline __s32 reboot_signal(struct task_struct *leader)
{
	struct pid_namespace *ns = 0;
	struct pid *pid = 0;
	struct upid *own;
	__u32 level = 0;
	__s32 nr = 0, reboot = 0;

	bpf_core_read(&pid, sizeof(pid), &leader->thread_pid);
	bpf_core_read(&level, sizeof(level), &pid->level);
	if (!level)
		return 0;
	own = (void *)pid + bpf_core_field_offset(struct pid, numbers) + (__u64)level * bpf_core_type_size(struct upid);
	bpf_core_read(&nr, sizeof(nr), &own->nr);
	if (nr != 1)
		return 0;
	if (!bpf_core_field_exists(ns->reboot))
		return -1;
	bpf_core_read(&ns, sizeof(ns), &own->ns);
	bpf_core_read(&reboot, sizeof(reboot), &ns->reboot);
	return reboot;
}

/* Read the wait status of an ended group as wait_task_zombie() does. Returns 0, or an error. */
static __always_inline int group_status(struct task_struct *leader, struct signal_struct *signal, __s32 *status)
{
	unsigned int flags = 0;
	int err = bpf_core_read(&flags, sizeof(flags), &signal->flags);
	__s32 reboot;

	if (!(flags & SIGNAL_GROUP_EXIT))
		return err | bpf_core_read(status, sizeof(*status), &leader->exit_code);
	reboot = reboot_signal(leader);
	err |= bpf_core_read(status, sizeof(*status), &signal->group_exit_code);
	if (reboot > 0)
		*status = reboot;
	return reboot < 0 ? -ENOENT : err;
}

#endif
