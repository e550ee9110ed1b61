// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The programs, one or more for each hook. Raw tracepoints report forks, execs, exits and
 * changes of comm; the kernel has no tracepoint for changes of ids, which use kprobes or
 * syscall tracepoints.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "read.h"
#include "task.h"
#include "record.h"
#include "slots.h"
#ifdef PERF_BUFFER
#include "perfbuffer.h"
#else
#include "ring.h"
#endif
#include "state.h"
#include "text.h"
#include "stdio.h"
#include "twin.h"
#include "usage.h"
#include "reaper.h"
#include "snapshot.h"

char license_text[] SEC("license") = "Dual BSD/GPL";

/* 1: report single threads too. */
const volatile __u8 want_threads = 0;
/* Exits have the next parent of the children. */
const volatile __u8 want_reparent = 0;
/* If not 0: report only exits that have one of these bits in the wait status. */
const volatile __u32 exit_bits = 0;
/*
 * Offset in the record of a syscall's tracepoint: of the return value at its exit, of the first
 * argument at its entry.
 */
const volatile __u32 syscall_offset = 16;
/*
 * Offsets in the context of a kprobe's program, a struct pt_regs, which differs by architecture:
 * of a function's first and second argument at its entry, and of its return value at its exit.
 */
const volatile __u32 argument_offset = 0;
const volatile __u32 second_argument_offset = 0;
const volatile __u32 result_offset = 0;
/* The same of a system call's first argument; the second is where a function's is. */
const volatile __u32 first_offset = 0;

/*
 * What the programs of plain tracepoints return: 0 would keep the record from all others that read
 * the tracepoint by perf_event_open(2).
 */
#define PASS_ON 1

#include "namespaces.h"

#define ARGUMENT(ctx, n) ((void *)(ctx)->args[n])

SEC("raw_tp/sched_process_fork")
int quark_fork(struct bpf_raw_tracepoint_args *ctx)
{
	if (take_first(ARGUMENT(ctx, 1), EVENT_FORK))
		bpf_tail_call(ctx, &handlers, EVENT_FORK);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int quark_fork_twin(struct bpf_raw_tracepoint_args *ctx)
{
	if (take_second(ARGUMENT(ctx, 1), EVENT_FORK))
		bpf_tail_call(ctx, &handlers, EVENT_FORK);
	return 0;
}

/* Flags of tasks, linux/sched.h. No fork made the last two, but the kernel. */
#define PF_EXITING 0x4
#define PF_IO_WORKER 0x10
#define PF_USER_WORKER 0x4000

static __always_inline unsigned int flags_of(struct task_struct___flags *task)
{
	unsigned int flags = 0;

	if (bpf_core_field_exists(task->flags))
		bpf_core_read(&flags, sizeof(flags), &task->flags);
	return flags;
}

/* The second program of forks where raw tracepoints are preemptible, see twin.h. */
SEC("raw_tp/sched_wakeup_new")
int quark_fork_wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	void *child = ARGUMENT(ctx, 0);

	if (!(flags_of(child) & PF_USER_WORKER) && take_second(child, EVENT_FORK))
		bpf_tail_call(ctx, &handlers, EVENT_FORK);
	return 0;
}

/*
 * Threads that the kernel makes in a process, for io_uring and vhost, pass sched_wakeup_new alone.
 * In kernels that make none the flags have other meanings.
 */
SEC("raw_tp/sched_wakeup_new")
int quark_fork_worker(struct bpf_raw_tracepoint_args *ctx)
{
	struct kernel_clone_args *args = 0;
	void *child = ARGUMENT(ctx, 0);
	unsigned int worker = 0;
	struct event *e;

	if (bpf_core_field_exists(args->io_thread))
		worker |= PF_IO_WORKER;
	if (bpf_core_field_exists(args->user_worker))
		worker |= PF_USER_WORKER;
	if (!(flags_of(child) & worker))
		return 0;
	e = reserve_event(EVENT_FORK);
	if (!e)
		return 0;
	fill_event(e, EVENT_FORK, child, 0);
	e->creator = bpf_get_current_pid_tgid() >> 32;
	e->thread = 1;
	submit_event(ctx, e, sizeof(*e));
	return 0;
}

/*
 * Facts about an ending group of several threads: an entry for each, see ends_group in task.h. The
 * first program to enter REPORTED reports the end.
 */
struct group {
	__u64 start;
	__u32 tgid;
	__u32 fact;
};
enum group_fact { LEADER_PASSED, REPORTED, HAD_TERMINAL };

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct group);
	__type(value, __u8);
} groups SEC(".maps");

/*
 * The terminals of groups with a leader that still has to pass the tracepoint, by HAD_TERMINAL. The
 * last thread to live removes the terminal of a session leader right after passing the tracepoint,
 * so that the leader, which passes later, does not see it any more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct group);
	__type(value, struct terminal);
} terminals SEC(".maps");

static __always_inline void remember_leader(void *group, struct task_struct *leader)
{
	__u8 yes = 1;

	bpf_map_update_elem(&groups, group, &yes, BPF_ANY);
}

static __always_inline int leader_passed(void *group, struct task_struct *leader)
{
	return bpf_map_lookup_elem(&groups, group) != 0;
}

/* The thread that called execve became the leader. The old leader has passed the exit tracepoint,
 * the new one has not. */
static __always_inline void forget_leader(__u64 start, __u32 tgid)
{
	struct group g = { start, tgid, LEADER_PASSED };

	bpf_map_delete_elem(&groups, &g);
}

/*
 * Fill in the ids with which the file of an image was opened. The kernel opens it for the task that
 * executes, and then changes the ids, but never the real ones: with others somebody else has opened
 * it, as binfmt_misc can.
 */
static __always_inline void fill_opened(struct executable *x, const struct event *e, struct file *exe)
{
	const struct cred *cred = 0;
	ID_SET(ids);

	if (!x->mode || !bpf_core_field_exists(exe->f_cred) || bpf_core_read(&cred, sizeof(cred), &exe->f_cred) ||
	    !cred || read_ids(&ids, cred))
		return;
	x->euid = ids.euid;
	x->egid = ids.egid;
	x->opened = ids.uid == e->uid && ids.gid == e->gid;
}

/*
 * Report a fork of the current task, which has made the child at this address, or an exec of the
 * current task, at this address, by the thread that had old_tid. Most of the verifier's work is
 * here. It checks the function once for each program, not once for each kind. The result is for
 * SEND_RETURNED.
 */
__attribute__((noinline)) int report_image(__u64 address, __u32 kind, __u32 old_tid)
{
	struct task_struct *task = (void *)address;
	struct mm_struct *mm = 0;
	struct file *exe = 0;
	struct two args = {};
	int form = TEXT_UNKNOWN;
	struct event *e;
	struct slot *s;
	__u32 index, begin;

	if (kind == EVENT_FORK && !want_threads && is_thread(task))
		return 0;
	s = take_slot(kind, &index);
	if (!s)
		return 0;
	e = &s->record.event;
	fill_event(e, kind, task, 0);
	if (kind == EVENT_FORK) {
		e->creator = bpf_get_current_pid_tgid() >> 32;
		e->thread = e->tid != e->tgid;
	} else {
		if (e->tid != old_tid)
			forget_leader(e->start, e->tgid);
		bpf_core_read(&mm, sizeof(mm), &task->mm);
	}
	if (mm) {
		bpf_core_read(&exe, sizeof(exe), &mm->exe_file);
		if (!READ_TWO(&args, mm, struct mm_struct, arg_start, arg_end))
			form = copy_argv(index, args.first, args.second);
	}
	if (!e->thread) {
		read_executable(index, (__u64)exe);
		if (kind == EVENT_EXEC)
			fill_opened(&s->record.executable, e, exe);
		end_text(s, &s->record.argv, form, 0);
		append_paths(s, index, task, exe, &(struct walks){ walk_path, walk_cgroup });
		begin = s->used;
		end_text(s, &s->record.asked, copy_asked(index, (__u64)mm), begin);
		if (kind == EVENT_EXEC)
			append_stdio(index, address);
		if (want_environ && mm)
			append_environ(s, index, mm);
	}
	RETURN_SLOT(s, index, kind);
}

SEC("raw_tp/sched_process_exec")
int quark_exec(struct bpf_raw_tracepoint_args *ctx)
{
	if (claim_first(ARGUMENT(ctx, 0), EVENT_EXEC))
		bpf_tail_call(ctx, &handlers, EVENT_EXEC);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int quark_exec_twin(struct bpf_raw_tracepoint_args *ctx)
{
	if (claim_second(ARGUMENT(ctx, 0), EVENT_EXEC))
		bpf_tail_call(ctx, &handlers, EVENT_EXEC);
	return 0;
}

/* The second program of execs where raw tracepoints are preemptible, see twin.h. */
SEC("tracepoint/sched/sched_process_exec")
int quark_exec_perf(void *ctx)
{
	struct task_struct *task = current_task();

	if (claim_second(task, EVENT_EXEC))
		SEND_RETURNED(ctx, report_image((__u64)task, EVENT_EXEC, 0));
	return PASS_ON;
}

/* In place of the others where only exits are reported. */
SEC("raw_tp/sched_process_exec")
int quark_exec_leader(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = ARGUMENT(ctx, 0);
	__u32 old_tid = ctx->args[1];

	if (old_tid != tid_of(task))
		forget_leader(start_time(task), tgid_of(task));
	return 0;
}

#define PID_MAX_LIMIT (1 << 22) /* linux/threads.h */

/*
 * The handler of forks and execs. The arguments show which it is: sched_wakeup_new has only a
 * child, the second one of sched_process_fork is a child's address, of sched_process_exec a pid.
 */
SEC("raw_tp/sched_process_fork")
int quark_text_handler(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 task = ctx->args[0], second = ctx->args[1];
	volatile __u32 kind = EVENT_FORK; /* to the verifier, any kind: see FORGOTTEN */

	if ((void *)task == current_task()) {
		if (second > PID_MAX_LIMIT)
			task = second;
		else
			kind = EVENT_EXEC;
	}
	return SEND_RETURNED(ctx, report_image(task, kind, second));
}

/* Whether task reports the end of its group. */
static __always_inline int reports_group(struct task_struct *task, struct task_struct *leader,
					 struct signal_struct *signal)
{
	struct group g = {};
	struct terminal t = {};
	int threads = 0;
	__u8 yes = 1;

	/* signal->nr_threads counts a thread until it is reaped. If only the leader is left, no
	 * other thread can have reported the end. */
	bpf_core_read(&threads, sizeof(threads), &signal->nr_threads);
	if (task == leader && threads == 1)
		return 1;

	g.start = start_time(leader);
	g.tgid = tgid_of(leader);
	g.fact = LEADER_PASSED;
	switch (ends_group(task, leader, signal, &g)) {
	case GROUP_LIVES:
		return 0;
	case LEADER_TO_COME:
		g.fact = HAD_TERMINAL;
		if (read_tty(&t, signal))
			bpf_map_update_elem(&terminals, &g, &t, BPF_NOEXIST);
		return 0;
	case GROUP_ENDED:
		break;
	}
	g.fact = REPORTED;
	/* The cast: before 6.4 the helper is a kernel function that returns an int, and the upper
	 * half of the register is undefined. */
	return (int)bpf_map_update_elem(&groups, &g, &yes, BPF_NOEXIST) != -EEXIST;
}

/* Report the end of a group, or of one thread. */
static __always_inline void report_end(void *ctx, struct task_struct *task, struct task_struct *leader,
				       struct signal_struct *signal, int group)
{
	int status = 0, err;
	struct exit_event *x;
	struct event *e;

	if (group)
		err = group_status(leader, signal, &status);
	else
		err = bpf_core_read(&status, sizeof(status), &task->exit_code);
	if (exit_bits && !err && !(status & exit_bits))
		return;
	x = RESERVE(EVENT_EXIT, struct exit_event);
	if (!x)
		return;
	e = &x->event;
	fill_event(e, EVENT_EXIT, group ? leader : task, 0);
	__builtin_memset(&x->usage, 0, sizeof(x->usage));
	if (group) {
		struct group g = { e->start, e->tgid, HAD_TERMINAL };
		/* After fill_event: the entry was made before the terminal was taken away. */
		struct terminal *t = bpf_map_lookup_elem(&terminals, &g);

		if (t)
			set_tty(e, t);
		fill_usage(x, task, signal);
		if (want_reparent)
			e->creator = next_parent(task, signal);
	} else {
		e->thread = 1;
	}
	e->wait_status = status;
	if (!err)
		e->known |= KNOWN_WAIT;
	submit_event(ctx, e, sizeof(*x));
}

static __always_inline void end_thread(void *ctx, struct task_struct *task)
{
	struct task_struct *leader = 0;
	struct signal_struct *signal = 0;
	int group;

	bpf_core_read(&leader, sizeof(leader), &task->group_leader);
	bpf_core_read(&signal, sizeof(signal), &task->signal);
	if (!leader || !signal)
		return;
	group = reports_group(task, leader, signal);
	if (want_threads && (!group || task != leader))
		report_end(ctx, task, leader, signal, 0);
	if (group)
		report_end(ctx, task, leader, signal, 1);
}

SEC("raw_tp/sched_process_exit")
int quark_exit_handler(struct bpf_raw_tracepoint_args *ctx)
{
	end_thread(ctx, ARGUMENT(ctx, 0));
	return 0;
}

SEC("raw_tp/sched_process_exit")
int quark_exit(struct bpf_raw_tracepoint_args *ctx)
{
	if (claim_first(ARGUMENT(ctx, 0), EVENT_EXIT))
		bpf_tail_call(ctx, &handlers, EVENT_EXIT);
	return 0;
}

/* The second program of exits with PREEMPT_RT before 7.0, see twin.h. */
SEC("raw_tp/sched_process_exit")
int quark_exit_twin(struct bpf_raw_tracepoint_args *ctx)
{
	if (claim_second(ARGUMENT(ctx, 0), EVENT_EXIT))
		bpf_tail_call(ctx, &handlers, EVENT_EXIT);
	return 0;
}

/* The second program of exits where they are. */
SEC("tracepoint/sched/sched_process_exit")
int quark_exit_perf(void *ctx)
{
	struct task_struct *task = current_task();

	if (claim_second(task, EVENT_EXIT))
		end_thread(ctx, task);
	return PASS_ON;
}

/*
 * Whether the current task is in execve, which sets comm and credentials too: a task that executes
 * owns signal->cred_guard_mutex. The low bits of a mutex's owner are flags.
 */
static __always_inline int in_exec(struct task_struct *task)
{
	struct signal_struct *signal = 0;
	__u64 owner = 0;
	void *mutex;

	bpf_core_read(&signal, sizeof(signal), &task->signal);
	mutex = (void *)signal + OFFSET(struct signal_struct, cred_guard_mutex);
	if (bpf_core_field_exists(struct mutex, owner))
		bpf_core_read(&owner, sizeof(owner), &((struct mutex *)mutex)->owner.counter);
	else if (bpf_core_field_exists(struct mutex___rt, rtmutex))
		bpf_core_read(&owner, sizeof(owner), &((struct mutex___rt *)mutex)->rtmutex.owner);
	else if (bpf_core_field_exists(struct mutex___rt510, lock))
		bpf_core_read(&owner, sizeof(owner), &((struct mutex___rt510 *)mutex)->lock.owner);
	return (owner & ~7ULL) == (__u64)task;
}

SEC("raw_tp/task_rename")
int quark_rename_handler(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = ARGUMENT(ctx, 0), *current = current_task();
	int thread = is_thread(task);
	struct event *e;

	if (thread && !want_threads)
		return 0;
	if (task == current && in_exec(current))
		return 0; /* EXEC reports it */
	e = reserve_event(EVENT_COMM);
	if (!e)
		return 0;
	fill_event(e, EVENT_COMM, task, 0);
	e->thread = thread;
	/* task->comm is still the old one. */
	e->known &= ~KNOWN_COMM;
	__builtin_memset(e->comm, 0, sizeof(e->comm));
	if (bpf_probe_read_kernel_str(e->comm, sizeof(e->comm), ARGUMENT(ctx, 1)) > 0)
		e->known |= KNOWN_COMM;
	submit_event(ctx, e, sizeof(*e));
	return 0;
}

SEC("raw_tp/task_rename")
int quark_rename(struct bpf_raw_tracepoint_args *ctx)
{
	if (take_first(ARGUMENT(ctx, 0), EVENT_COMM))
		bpf_tail_call(ctx, &handlers, EVENT_COMM);
	return 0;
}

SEC("raw_tp/task_rename")
int quark_rename_twin(struct bpf_raw_tracepoint_args *ctx)
{
	if (take_second(ARGUMENT(ctx, 0), EVENT_COMM))
		bpf_tail_call(ctx, &handlers, EVENT_COMM);
	return 0;
}

/* What commit_creds reports. */
const volatile __u8 want_ids = 0;
const volatile __u8 want_user_ns = 0;

/* Report that ids of the current task changed. cred is NULL if the task has them already. */
static __always_inline int report_ids(void *ctx, struct task_struct *task, const struct cred *cred, __u32 ids)
{
	int thread = is_thread(task);
	struct event *e;

	if (thread && !want_threads && !(ids & IDS_SID)) /* threads share the session */
		return 0;
	e = reserve_event(EVENT_ID_CHANGE);
	if (!e)
		return 0;
	fill_event(e, EVENT_ID_CHANGE, task, cred);
	e->thread = thread && !(ids & IDS_SID);
	e->ids = ids;
	submit_event(ctx, e, sizeof(*e));
	return 0;
}

/* The 8 bytes at an offset in a program's context, -1 if they cannot be read. */
static __always_inline long word_at(void *ctx, __u32 offset)
{
	long word = -1;

	bpf_probe_read_kernel(&word, sizeof(word), ctx + offset);
	return word;
}

SEC("kprobe/commit_creds")
int quark_commit_creds(void *ctx)
{
	const struct cred *new = (void *)word_at(ctx, argument_offset), *old = 0;
	struct task_struct *task = current_task();
	ID_SET(a);
	ID_SET(b);
	__u32 ids = 0;

	bpf_core_read(&old, sizeof(old), &task->real_cred);
	read_ids(&a, old);
	read_ids(&b, new);
	if (a.uid != b.uid || a.euid != b.euid || a.suid != b.suid)
		ids |= IDS_UID;
	if (a.gid != b.gid || a.egid != b.egid || a.sgid != b.sgid)
		ids |= IDS_GID;
	if (!ids)
		return want_user_ns ? change_user_namespace(ctx, old, new) : 0;
	if (!want_ids || in_exec(task))
		return 0;
	return report_ids(ctx, task, new, ids);
}

/* The arguments are the task and its new nsproxy, NULL if it ends. */
SEC("kprobe/switch_task_namespaces")
int quark_switch_namespaces(void *ctx)
{
	struct task_struct *task = (void *)word_at(ctx, argument_offset);
	struct nsproxy *new = (void *)word_at(ctx, second_argument_offset), *old = 0;
	struct namespaces was = {}, now = {};

	/* An exec can enter the time namespace of future children. */
	if (!new || task != current_task() || in_exec(task))
		return 0;
	bpf_core_read(&old, sizeof(old), &task->nsproxy);
	read_namespaces(&was, old);
	read_namespaces(&now, new);
	return report_namespaces(ctx, 0, &was, &now);
}

SEC("kretprobe/ksys_setsid")
int quark_ksys_setsid(void *ctx)
{
	if ((int)word_at(ctx, result_offset) <= 0)
		return 0;
	return report_ids(ctx, current_task(), 0, IDS_SID);
}

/*
 * Report a change of a process group, by setpgid(2) of the process or of its parent. setsid(2)
 * makes one with the session's number, and has an event of its own. The arguments are task, type
 * and pid; since 6.15 a pointer comes before them.
 */
SEC("kprobe/change_pid")
int quark_change_pid(void *ctx)
{
	__u32 step = second_argument_offset - argument_offset, at = argument_offset;
	__u64 type = word_at(ctx, at + step);
	struct signal_struct *signal = 0;
	struct pid *pid, *session = 0;
	struct task_struct *task;
	__u32 pgid = 0, sid = 0;
	struct event *e;

	if (type > bpf_core_enum_value(enum pid_type, PIDTYPE_SID)) {
		at += step;
		type = word_at(ctx, at + step);
	}
	if (type != bpf_core_enum_value(enum pid_type, PIDTYPE_PGID))
		return 0;
	task = (void *)word_at(ctx, at);
	pid = (void *)word_at(ctx, at + 2 * step);
	bpf_core_read(&signal, sizeof(signal), &task->signal);
	read_kernel(&session, sizeof(session), (void *)signal + OFFSET(struct signal_struct, pids) +
					       8 * bpf_core_enum_value(enum pid_type, PIDTYPE_SID));
	if (bpf_core_read(&pgid, 4, &pid->numbers[0].nr) || bpf_core_read(&sid, 4, &session->numbers[0].nr) ||
	    (sid == pgid && pgid == tgid_of(task)))
		return 0;
	e = reserve_event(EVENT_ID_CHANGE);
	if (!e)
		return 0;
	fill_event(e, EVENT_ID_CHANGE, task, 0);
	e->ids = IDS_PGID;
	e->pgid = pgid;
	e->known |= KNOWN_PGID;
	if (e->tgid != bpf_get_current_pid_tgid() >> 32)
		e->known &= ~KNOWN_COMM; /* it may be setting its comm */
	submit_event(ctx, e, sizeof(*e));
	return 0;
}

/* The exits of syscalls, for kernels without kprobes. */
SEC("tracepoint/syscalls/sys_exit_setsid")
int quark_exit_setsid(void *ctx)
{
	if (word_at(ctx, syscall_offset) <= 0)
		return PASS_ON;
	report_ids(ctx, current_task(), 0, IDS_SID);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_exit_setuid")
int quark_exit_setuid(void *ctx)
{
	if (word_at(ctx, syscall_offset) != 0)
		return PASS_ON;
	report_ids(ctx, current_task(), 0, IDS_UID);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_exit_setgid")
int quark_exit_setgid(void *ctx)
{
	if (word_at(ctx, syscall_offset) != 0)
		return PASS_ON;
	report_ids(ctx, current_task(), 0, IDS_GID);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_enter_setns")
int quark_enter_namespaces(void *ctx) { return enter_namespaces(); }

SEC("tracepoint/syscalls/sys_exit_setns")
int quark_exit_setns(void *ctx)
{
	return leave_namespaces(ctx, word_at(ctx, syscall_offset), 1);
}

SEC("tracepoint/syscalls/sys_exit_unshare")
int quark_exit_unshare(void *ctx)
{
	return leave_namespaces(ctx, word_at(ctx, syscall_offset), 0);
}

/*
 * Report that a process was moved to a cgroup. The tracepoint follows each move, in any hierarchy,
 * and the kernel makes no other one meanwhile. So it is the hierarchy of cgroup_from if the leader
 * is in that cgroup. No more is read of the process, which may run.
 */
__attribute__((noinline)) int report_cgroup(__u64 address, __u64 leader)
{
	struct cgroup *cgroup = (void *)address;
	struct task_struct *task = (void *)leader;
	struct kernfs_node *kn = 0;
	struct event *e;
	struct slot *s;
	__u32 index;

	bpf_core_read(&kn, sizeof(kn), &cgroup->kn);
	/* The kernel moves no process whose leader has ended. */
	if (is_thread(task) || flags_of((void *)task) & PF_EXITING || !kn || cgroup_node(task) != kn)
		return 0;
	s = take_slot(EVENT_CGROUP_CHANGE, &index);
	if (!s)
		return 0;
	e = &s->record.event;
	begin_event(e, EVENT_CGROUP_CHANGE);
	e->tgid = e->tid = tgid_of(task);
	e->start = start_time(task);
	if (e->start)
		e->known |= KNOWN_START;
	e->creator = bpf_get_current_pid_tgid() >> 32;
	end_text(s, &s->record.argv, TEXT_UNKNOWN, 0);
	end_text(s, &s->record.filename, TEXT_UNKNOWN, 0);
	end_text(s, &s->record.cwd, TEXT_UNKNOWN, 0);
	end_text(s, &s->record.cgroup, FORGOTTEN(s, walk_cgroup(index, (__u64)kn)), 0);
	end_text(s, &s->record.asked, TEXT_UNKNOWN, s->used);
	RETURN_SLOT(s, index, EVENT_CGROUP_CHANGE);
}

SEC("raw_tp/cgroup_attach_task")
int quark_cgroup(struct bpf_raw_tracepoint_args *ctx)
{
	return SEND_RETURNED(ctx, report_cgroup(ctx->args[0], ctx->args[2]));
}

/* Requests of ptrace(2), from linux/ptrace.h. Inside of the kernel a seizure is the first, too. */
enum { PTRACE_ATTACH = 16, PTRACE_DETACH = 17, PTRACE_SEIZE = 0x4206 };

/* The task that a tracer attaches to or detaches from. */
struct tracee {
	__u64 start;
	__u32 tgid, tid; /* 0: not found */
	__u32 nr;	 /* the pid that the tracer calls it by */
	int request;
};

static __always_inline void identify(struct tracee *t, struct task_struct *task)
{
	struct task_struct *leader = 0;

	bpf_core_read(&leader, sizeof(leader), &task->group_leader);
	t->start = start_time(leader);
	t->tgid = tgid_of(task);
	t->tid = tid_of(task);
}

/* Report that the current task attached or detached. No more is read of the tracee, which may
 * run. */
static __always_inline void report_ptrace(void *ctx, const struct tracee *t)
{
	int thread = t->tid != t->tgid;
	struct event *e;

	if (thread && !want_threads)
		return;
	e = reserve_event(EVENT_PTRACE);
	if (!e)
		return;
	begin_event(e, EVENT_PTRACE);
	e->thread = thread;
	e->tgid = t->tgid;
	e->tid = t->tid;
	e->start = t->start;
	if (e->start)
		e->known |= KNOWN_START;
	if (t->request != PTRACE_DETACH) {
		__u64 id = bpf_get_current_pid_tgid();

		e->tracer = id >> 32;
		e->tracer_tid = id;
	}
	submit_event(ctx, e, sizeof(*e));
}

SEC("kprobe/proc_ptrace_connector")
int quark_ptrace_connector(void *ctx)
{
	struct tracee t = { .request = word_at(ctx, second_argument_offset) };

	identify(&t, (void *)word_at(ctx, argument_offset));
	report_ptrace(ctx, &t);
	return 0;
}

/* For kernels without kprobes: the calls in progress, by bpf_get_current_pid_tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct tracee);
} ptrace_calls SEC(".maps");

#define MAX_TRACEES 256
#define TRACEES_AT_ONCE 16

/*
 * Look at the next entries of a list of tracees. Returns where to go on, with the low bit set if
 * that is the tracee nr, or 0 if there are no more.
 */
__attribute__((noinline)) __u64 look_for_tracee(__u64 head, __u64 at, __u32 level, __u32 nr)
{
	for (int i = 0; i < TRACEES_AT_ONCE; i++) {
		struct list_head *entry = (void *)at;
		struct task_struct *task;
		struct pid *pid = 0;
		__u32 found = 0;

		if (bpf_core_read(&at, sizeof(at), &entry->next) || !at || at == head)
			return 0;
		task = (void *)at - OFFSET(struct task_struct, ptrace_entry);
		bpf_core_read(&pid, sizeof(pid), &task->thread_pid);
		read_kernel(&found, sizeof(found),
			    (void *)pid + OFFSET(struct pid, numbers) +
				    (__u64)level * bpf_core_type_size(struct upid));
		if (found == nr)
			return at | 1;
	}
	return at;
}

/* Find the tracee t->nr of the current task. The last one attached to comes first. */
static __always_inline void find_tracee(struct tracee *t)
{
	struct task_struct *tracer = current_task();
	__u64 head = (__u64)tracer + OFFSET(struct task_struct, ptraced), at = head;
	struct pid *pid = 0;
	__u32 level = 0;

	bpf_core_read(&pid, sizeof(pid), &tracer->thread_pid);
	bpf_core_read(&level, sizeof(level), &pid->level);
	for (int i = 0; at && i < MAX_TRACEES / TRACEES_AT_ONCE; i++) {
		at = look_for_tracee(head, at, level, t->nr);
		if (at & 1) {
			identify(t, (void *)at - 1 - OFFSET(struct task_struct, ptrace_entry));
			return;
		}
	}
}

SEC("tracepoint/syscalls/sys_enter_ptrace")
int quark_enter_ptrace(void *ctx)
{
	__u64 caller = bpf_get_current_pid_tgid();
	struct tracee t = { .nr = word_at(ctx, syscall_offset + 8), .request = word_at(ctx, syscall_offset) };

	if (t.request != PTRACE_ATTACH && t.request != PTRACE_SEIZE && t.request != PTRACE_DETACH)
		return PASS_ON;
	if (t.request == PTRACE_DETACH)
		find_tracee(&t); /* at the exit it is none any more */
	bpf_map_update_elem(&ptrace_calls, &caller, &t, BPF_ANY);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_exit_ptrace")
int quark_exit_ptrace(void *ctx)
{
	__u64 caller = bpf_get_current_pid_tgid();
	struct tracee *call = bpf_map_lookup_elem(&ptrace_calls, &caller), t;

	if (!call)
		return PASS_ON;
	t = *call;
	bpf_map_delete_elem(&ptrace_calls, &caller);
	if (word_at(ctx, syscall_offset) != 0)
		return PASS_ON;
	if (t.request != PTRACE_DETACH)
		find_tracee(&t);
	if (t.tgid) {
		report_ptrace(ctx, &t);
	} else {
		COUNT(EVENT_PTRACE, produced);
		COUNT(EVENT_PTRACE, no_slot);
	}
	return PASS_ON;
}

/*
 * The execve(2) calls in progress, by the address of the task: one that is not the leader of its
 * group becomes it and takes its pid. Not used where programs get registers.
 */
struct exec_call {
	__u64 path; /* in user memory */
	__u64 mm;
	__u32 dir, pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct exec_call);
} exec_calls SEC(".maps");

#define AT_FDCWD -100
#define MAX_ERRNO 511 /* from 512 on the kernel makes the call again, or ends the process */

static __always_inline void begin_exec(__u64 path, __u32 dir)
{
	struct task_struct *task = current_task();
	struct exec_call call = { .path = path, .dir = dir };
	__u64 key = (__u64)task;

	bpf_core_read(&call.mm, sizeof(call.mm), &task->mm);
	bpf_map_update_elem(&exec_calls, &key, &call, BPF_ANY);
}

SEC("tracepoint/syscalls/sys_enter_execve")
int quark_enter_execve(void *ctx)
{
	begin_exec(word_at(ctx, syscall_offset), AT_FDCWD);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_enter_execveat")
int quark_enter_execveat(void *ctx)
{
	begin_exec(word_at(ctx, syscall_offset + 8), word_at(ctx, syscall_offset));
	return PASS_ON;
}

static __always_inline void report_failed_exec(void *ctx, struct task_struct *task, __u64 path, __u32 dir, int err)
{
	struct task_struct *leader = 0;
	struct event *e;
	struct slot *s;
	__u32 index;
	long len;

	bpf_core_read(&leader, sizeof(leader), &task->group_leader);
	s = take_slot(EVENT_EXEC_FAILED, &index);
	if (!s)
		return;
	e = &s->record.event;
	fill_event(e, EVENT_EXEC_FAILED, leader, 0); /* whichever thread has called */
	e->tid = tid_of(task);
	e->wait_status = err;
	e->tracer = dir;
	s->record.executable.mode = 0;
	end_text(s, &s->record.argv, TEXT_UNKNOWN, 0);
	/* One byte more than a path can have, its NUL included. Some kernels return 0 for an empty
	 * text. */
	len = bpf_probe_read_user_str(s->record.data, PATH_MAX + 1, (void *)path);
	if (len > 0 && len <= PATH_MAX + 1)
		s->used = len;
	end_text(s, &s->record.filename, len < 0 ? TEXT_UNKNOWN : len > PATH_MAX ? TEXT_BYTES_CUT : TEXT_BYTES, 0);
	end_text(s, &s->record.cwd, TEXT_UNKNOWN, s->used);
	end_text(s, &s->record.cgroup, TEXT_UNKNOWN, s->used);
	end_text(s, &s->record.asked, TEXT_UNKNOWN, s->used);
	send_slot(ctx, s, EVENT_EXEC_FAILED);
	put_slot(index);
}

static __always_inline int is_failure(long result)
{
	return result < 0 && result >= -MAX_ERRNO;
}

/*
 * The user's registers have the arguments until an exec succeeds. New memory has no end of the
 * program's arguments until little can fail; an exec that fails before that ends the process.
 */
static __always_inline int end_exec(void *ctx, long result, __u32 path_offset, int has_dir)
{
	struct task_struct *task = current_task();
	__u64 path = 0, dir = AT_FDCWD, arg_end = 0;
	struct mm_struct *mm = 0;
	void *regs;

	if (!is_failure(result))
		return PASS_ON;
	bpf_core_read(&mm, sizeof(mm), &task->mm);
	if (bpf_core_read(&arg_end, sizeof(arg_end), &mm->arg_end) || !arg_end)
		return PASS_ON;
	regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	bpf_probe_read_kernel(&path, sizeof(path), regs + path_offset);
	if (has_dir)
		bpf_probe_read_kernel(&dir, sizeof(dir), regs + first_offset);
	report_failed_exec(ctx, task, path, dir, result);
	return PASS_ON;
}

SEC("tracepoint/syscalls/sys_exit_execve")
int quark_end_execve(void *ctx) { return end_exec(ctx, word_at(ctx, syscall_offset), first_offset, 0); }

SEC("tracepoint/syscalls/sys_exit_execveat")
int quark_end_execveat(void *ctx) { return end_exec(ctx, word_at(ctx, syscall_offset), second_argument_offset, 1); }

/* Of both system calls. */
SEC("tracepoint/syscalls/sys_exit_execve")
int quark_exit_execve(void *ctx)
{
	struct task_struct *task = current_task();
	struct exec_call *call, was;
	struct mm_struct *mm = 0;
	long result = word_at(ctx, syscall_offset);
	__u64 key = (__u64)task;

	call = bpf_map_lookup_elem(&exec_calls, &key);
	if (call) {
		was = *call;
		bpf_map_delete_elem(&exec_calls, &key);
	}
	if (!is_failure(result))
		return PASS_ON;
	bpf_core_read(&mm, sizeof(mm), &task->mm);
	if (!call) {
		COUNT(EVENT_EXEC_FAILED, produced);
		COUNT(EVENT_EXEC_FAILED, no_slot);
	} else if ((__u64)mm == was.mm) { /* else it ends the process */
		report_failed_exec(ctx, task, was.path, was.dir, result);
	}
	return PASS_ON;
}
