/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A description of each existing process, for readers of the task iterator (Linux 5.17). It has no
 * arguments: a program that reads another task's memory would wait for its provider. User space
 * reads them from /proc between two runs that show the same image.
 *
 * The task runs meanwhile, and its memory, files and namespaces can be replaced and freed while
 * they are read, which gives garbage and no fault. So the task's belongings are read before and
 * after. If they are the same, the task had them all the time, so that they were not freed. If any
 * differs the record has only the pid (known is 0), and the reader has to use /proc.
 */
#ifndef QUARK_SNAPSHOT_H
#define QUARK_SNAPSHOT_H

/* linux/sched.h */
#define PF_KTHREAD 0x00200000
#define TASK_NEW 0x800 /* a fork is not at its end: the child is not in its cgroup yet */

/*
 * Most of the memory read is freed by RCU, which the program delays. For the rest, it takes longer
 * than this to replace a task's object, use the memory for another task and restore it.
 */
#define MOST_NS 200000

/* The kernel has room for a record of less than 8 pages. */
#define HEADERS __builtin_offsetof(struct text_event, data)
#define TEXTS_MAX (0x7fff - HEADERS)

#define KNOWN_OF_ALL                                                                               \
	(KNOWN_START | KNOWN_PPID | KNOWN_PGID | KNOWN_SID | KNOWN_IDS | KNOWN_CAPS | KNOWN_TTY |  \
	 KNOWN_UTS | KNOWN_IPC | KNOWN_MNT | KNOWN_NET | KNOWN_EXIT_SIGNAL | KNOWN_COMM |          \
	 KNOWN_USERNS | KNOWN_OPTIONAL)
/* Those that a kernel may lack. */
#define KNOWN_OPTIONAL (KNOWN_LOGIN | KNOWN_PIDNS | KNOWN_CGROUPNS | KNOWN_TIMENS | KNOWN_NO_NEW_PRIVS | KNOWN_SECCOMP)

/* The one of the slots that is not in the pool. */
const volatile __u32 snapshot_slot = 0;

/* Written by user space: 1: say of each process only which image it executes. */
volatile __u32 images_only;
struct image {
	__u64 start;
	__u32 tgid, exec_id; /* as in struct event and struct belongings */
};

/* Addresses, except as noted. */
struct belongings {
	__u64 exec_id; /* each exec increments it */
	__u64 mm, exe;
	struct two args; /* of the process: where they begin and end */
	__u64 cred, tty, nsproxy, cgroups;
	__u64 fs, fs_seq; /* incremented before and after each change of a directory */
	struct two comm; /* the text */
	__u64 login; /* uid and session */
};

/* By calls, as the verifier takes long for each pointer that it follows by type. */
static __always_inline void read_belongings(struct belongings *b, struct task_struct *task)
{
	struct signal_struct *signal = 0;
	struct mm_struct *mm = 0;
	struct fs_struct *fs = 0;

	bpf_core_read(&b->exec_id, 8, &task->self_exec_id);
	bpf_core_read(&mm, 8, &task->mm);
	bpf_core_read(&b->exe, 8, &mm->exe_file);
	READ_TWO(&b->args, mm, struct mm_struct, arg_start, arg_end);
	b->mm = (__u64)mm;
	bpf_core_read(&b->cred, 8, &task->real_cred);
	bpf_core_read(&signal, 8, &task->signal);
	bpf_core_read(&b->tty, 8, &signal->tty);
	bpf_core_read(&b->nsproxy, 8, &task->nsproxy);
	bpf_core_read(&b->cgroups, 8, &task->cgroups);
	bpf_core_read(&fs, 8, &task->fs);
	b->fs = (__u64)fs;
	b->fs_seq = 0;
	bpf_core_read(&b->fs_seq, 4, &fs->seq);
	bpf_core_read(&b->comm, 16, &task->comm);
	b->login = 0;
	if (bpf_core_field_exists(task->loginuid))
		bpf_core_read(&b->login, 8, &task->loginuid);
}

static __always_inline int differ(const struct belongings *x, const struct belongings *y)
{
	const __u64 *a = (const void *)x, *b = (const void *)y;
	__u64 bits = 0;

#pragma unroll
	for (__u32 i = 0; i < sizeof(*x) / 8; i++)
		bits |= a[i] ^ b[i];
	return bits != 0;
}

/*
 * Walks by bpf_loop. The verifier follows only one step of them. Their state is in the slot, so
 * that all steps are the same to it.
 */
struct walk {
	__u32 index, begin;
	__u64 root, root_on;
};

static long next_step(__u32 i, struct walk *w)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &w->index);

	if (!s)
		return 1;
	s->form = walk_step(s, w->root, w->root_on, w->begin, 0);
	return s->form != CONTINUE;
}

static long next_check(__u32 i, struct walk *w)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &w->index);

	if (!s || is_unchanged(&s->seen[i & SEEN_MASK]))
		return 0;
	s->form = TEXT_UNKNOWN;
	return 1;
}

static long next_cgroup(__u32 i, struct walk *w)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &w->index);

	if (!s)
		return 1;
	s->form = walk_cgroup_step(s, w->begin);
	return s->form != CONTINUE;
}

__attribute__((noinline)) int loop_path(__u32 index, __u64 at, __u64 on, __u64 root, __u64 root_on)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct walk w = { index, 0, root, root_on };

	if (!s || begin_walk(s, at, on))
		return TEXT_UNKNOWN;
	w.begin = s->used;
	bpf_loop(PATH_STEPS, next_step, &w, 0);
	bpf_loop(s->notes, next_check, &w, 0);
	return s->form;
}

__attribute__((noinline)) int loop_cgroup(__u32 index, __u64 node)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct walk w = { index };

	if (!s)
		return TEXT_UNKNOWN;
	w.begin = s->used;
	s->node = node;
	bpf_loop(CGROUP_STEPS, next_cgroup, &w, 0);
	return s->form;
}

/* Describe a process in the slot's record. Returns 1 if all of it is right. */
static __always_inline int describe(struct slot *s, __u32 index, struct task_struct *task)
{
	/* A walk overwrites the second. */
	struct belongings *has = (void *)s->belongings, *had = (void *)s->seen;
	__u32 flags = 0, state = 0, lock = 0;
	struct event *e = &s->record.event;
	int user;
	__u64 begin, time;

	bpf_core_read(&flags, 4, &((struct task_struct___flags *)task)->flags);
	bpf_core_read(&state, 4, &task->__state);
	user = !(flags & PF_KTHREAD);
	s->used = 0;
	end_text(s, &s->record.argv, TEXT_UNKNOWN, 0);
	begin = bpf_ktime_get_ns();
	read_belongings(has, task);
	/* An execve sets the end of the arguments when all else of the new image is set. */
	if (user && (!has->args.first || has->args.second <= has->args.first))
		return 0;
	fill_event(e, EVENT_EXEC, task, 0);
	*(struct two *)e->comm = has->comm;
	read_executable(index, user ? has->exe : 0);
	append_paths(s, index, task, user ? (void *)has->exe : 0, &(struct walks){ loop_path, loop_cgroup });
	end_text(s, &s->record.asked, TEXT_UNKNOWN, s->used);
	if ((e->known | KNOWN_OPTIONAL) != KNOWN_OF_ALL || (state & TASK_NEW) || (has->fs_seq & 1) ||
	    (user && s->record.filename.form != TEXT_PATH) || s->record.cwd.form != TEXT_PATH ||
	    (cgroup_from != CGROUP_NONE && s->record.cgroup.form != TEXT_PATH) || s->used > TEXTS_MAX)
		return 0;
	time = bpf_ktime_get_ns();
	/* Who sets a comm holds this lock, until Linux 6.14. */
	bpf_core_read(&lock, 4, &task->alloc_lock);
	read_belongings(had, task);
	if (differ(has, had) || lock || bpf_ktime_get_ns() - begin > MOST_NS)
		return 0;
	e->time = time; /* all was so then */
	return 1;
}

SEC("iter/task")
int quark_snapshot(struct bpf_raw_tracepoint_args *ctx)
{
	struct seq_file **meta = (void *)ctx->args[0], *out = *meta;
	struct task_struct *task = (void *)ctx->args[1];
	__u32 index = snapshot_slot;
	struct slot *s;
	__u64 len;

	if (!task || is_thread(task))
		return 0;
	if (images_only) {
		struct image i = { start_time(task), tgid_of(task) };

		bpf_core_read(&i.exec_id, sizeof(i.exec_id), &task->self_exec_id);
		bpf_seq_write(out, &i, sizeof(i));
		return 0;
	}
	s = bpf_map_lookup_elem(&slots, &index);
	if (!s)
		return 0;
	if (!describe(s, index, task)) {
		__builtin_memset(&s->record, 0, HEADERS);
		s->record.event.tgid = tgid_of(task);
		s->used = 0;
	}
	len = s->used;
	if (len > TEXTS_MAX)
		len = TEXTS_MAX;
	bpf_seq_write(out, &s->record, HEADERS + len);
	return 0;
}

#endif
