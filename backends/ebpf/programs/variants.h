/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The programs of forks, execs, ends and new names for other ways to attach than raw tracepoints.
 * User space changes the type of a program before it loads it, as the comments say: tp_btf, fentry
 * or a plain tracepoint. The verifier knows the types of the arguments of the first two, but these
 * programs read them as words, so that one program does for both. Where the kernel can preempt
 * these two the second programs of twin.h come after them.
 */
#ifndef QUARK_VARIANTS_H
#define QUARK_VARIANTS_H

/* 1: the context has the arguments of a function, 0: those of a tracepoint. */
const volatile __u8 of_function = 0;
/* PASS_ON if they are of plain tracepoints. */
const volatile __u8 pass_on = 0;
/* PF_USER_WORKER, or what it was before: of threads that no fork made, which fentry sees too. */
const volatile __u32 worker_flags = 0;
/* Offsets in the record of a plain tracepoint. */
const volatile __u32 record_pid = 0, record_comm = 0, record_flags = 0;
/* 1: at record_comm is where the name is, and not the name. */
const volatile __u8 comm_elsewhere = 0;

#define PF_EXITING 4	    /* linux/sched.h */
#define CLONE_PARENT 0x8000 /* linux/sched.h, as the next one */
#define CLONE_THREAD 0x10000

static __always_inline unsigned int flags_of(struct task_struct *task)
{
	struct task_struct___flags *t = (void *)task;
	unsigned int flags = 0;

	if (bpf_core_field_exists(t->flags))
		bpf_core_read(&flags, sizeof(flags), &t->flags);
	return flags;
}

/* tp_btf of sched_process_fork(parent, child), fentry of wake_up_new_task(child) */
SEC("tp_btf/sched_process_fork")
int quark_variant_fork(void *ctx)
{
	struct task_struct *child = (void *)word_at(ctx, of_function ? 0 : 8);

	if (!(worker_flags && flags_of(child) & worker_flags) && fork_wanted(child) &&
	    (!twinned || take_first(child, EVENT_FORK)))
		SEND_RETURNED(ctx, report_image((__u64)child, EVENT_FORK, 0));
	return pass_on;
}

/* All three: of sched_process_exec, or fentry of a function that a task calls after that. */
SEC("tp_btf/sched_process_exec")
int quark_variant_exec(void *ctx)
{
	struct task_struct *task = current_task();

	if (!is_left_out(task, 0, 0) && (!twinned || claim_first(task, EVENT_EXEC)))
		SEND_RETURNED(ctx, report_image((__u64)task, EVENT_EXEC, 0));
	return pass_on;
}

/* The same in place of the former where only exits are reported. */
SEC("tp_btf/sched_process_exec")
int quark_variant_exec_leader(void *ctx)
{
	struct task_struct *task = current_task();

	forget_leader(start_time(task), tgid_of(task));
	return pass_on;
}

/*
 * All three: of sched_process_exit, or fentry of a function that each task calls at its end, right
 * before or after that: taskstats_exit(task, last), or exit_files(task), which a fork that fails
 * calls, too, for the task that it gives up.
 */
SEC("tp_btf/sched_process_exit")
int quark_variant_exit(void *ctx)
{
	struct task_struct *task = current_task();

	if (of_function && (word_at(ctx, 0) != (long)task || !(flags_of(task) & PF_EXITING)))
		return pass_on;
	if (is_left_out(task, 0, 0))
		return pass_on;
	if (!twinned || claim_first(task, EVENT_EXIT)) {
		end_thread(ctx, task);
		if (twinned)
			return pass_on;
	}
	forget_ended(task);
	return pass_on;
}

static __always_inline void report_comm(void *ctx, struct task_struct *task, const void *comm)
{
	int thread = is_thread(task);
	struct event *e;

	if ((thread && !want_threads) || left_out(task, 0, 0) || in_exec(task))
		return;
	e = reserve_event(EVENT_COMM);
	if (!e)
		return;
	fill_event(e, EVENT_COMM, task, 0);
	e->thread = thread;
	/* task->comm is still the old one. */
	e->known &= ~KNOWN_COMM;
	__builtin_memset(e->comm, 0, sizeof(e->comm));
	if (bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), comm) > 0)
		e->known |= KNOWN_COMM;
	submit_event(ctx, e, sizeof(*e));
}

/* tp_btf of task_rename(task, comm), fentry of __set_task_comm(task, comm, exec) */
SEC("tp_btf/task_rename")
int quark_variant_rename(void *ctx)
{
	struct task_struct *task = (void *)word_at(ctx, 0);

	if (!is_left_out(task, 0, 0) && (!twinned || take_first(task, EVENT_COMM)))
		report_comm(ctx, task, (void *)word_at(ctx, 8));
	return pass_on;
}

static __always_inline const void *comm_in(void *ctx)
{
	__u32 at = 0;

	if (!comm_elsewhere)
		return ctx + record_comm;
	bpf_probe_read_kernel(&at, sizeof(at), ctx + record_comm);
	return ctx + (at & 0xffff);
}

/*
 * A plain tracepoint, of task_rename. It tells the thread, and not the task: a name that a task
 * gives to another one than itself or the leader of its group is not reported. Those are names of
 * single threads, or of kernel threads.
 */
SEC("tracepoint/task/task_rename")
int quark_variant_rename_record(void *ctx)
{
	struct task_struct *task = current_task();
	__u32 tid = word_at(ctx, record_pid);

	if (tid != tid_of(task)) {
		if (tid != tgid_of(task))
			return pass_on;
		bpf_core_read(&task, sizeof(task), &task->group_leader);
	}
	report_comm(ctx, task, comm_in(ctx));
	return pass_on;
}

/*
 * A plain tracepoint, of task_newtask. It tells of the child its thread id, its name and with which
 * flags it was made. The parent is the current task, or has the same parent.
 */
SEC("tracepoint/task/task_newtask")
int quark_variant_fork_record(void *ctx)
{
	struct task_struct *task = current_task(), *parent = task;
	__u32 tid = word_at(ctx, record_pid), kind = EVENT_FORK, index;
	__u64 flags = word_at(ctx, record_flags);
	int thread = (flags & CLONE_THREAD) != 0;
	struct event *e;
	struct slot *s;

	if (!tid || (thread && !want_threads)) /* 0: an idle task, of a CPU that comes */
		return pass_on;
	s = take_slot(kind, &index);
	if (!s)
		return pass_on;
	e = &s->record.event;
	begin_event(e, kind);
	e->tid = tid;
	e->tgid = thread ? bpf_get_current_pid_tgid() >> 32 : tid;
	e->thread = thread;
	e->creator = bpf_get_current_pid_tgid() >> 32;
	set_image(e, task);
	if (flags & (CLONE_PARENT | CLONE_THREAD))
		bpf_core_read(&parent, sizeof(parent), &task->real_parent);
	if (!bpf_core_read(&e->ppid, 4, &parent->tgid))
		e->known |= KNOWN_PPID;
	if (!bpf_core_read(&e->parent_tid, 4, &parent->pid))
		e->known |= KNOWN_PARENT_TID;
	if (bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), comm_in(ctx)) > 0)
		e->known |= KNOWN_COMM;
	end_text(s, &s->record.argv, TEXT_UNKNOWN, 0);
	end_text(s, &s->record.filename, TEXT_UNKNOWN, s->used);
	end_text(s, &s->record.cwd, TEXT_UNKNOWN, s->used);
	end_text(s, &s->record.cgroup, TEXT_UNKNOWN, s->used);
	end_text(s, &s->record.asked, TEXT_UNKNOWN, s->used);
	send_slot(ctx, s, kind);
	put_slot(index);
	return pass_on;
}

#endif
