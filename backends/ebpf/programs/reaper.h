/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who becomes the parent of the children of a process that ends. */
#ifndef QUARK_REAPER_H
#define QUARK_REAPER_H

#define UNKNOWN_REAPER 0xffffffffU
#define PF_EXITING 0x4
/* Ancestors to search for a subreaper. */
#define MAX_ANCESTORS 8

static __always_inline int is_exiting(struct task_struct *task)
{
	unsigned int flags = PF_EXITING;

	bpf_core_read(&flags, sizeof(flags), &((struct task_struct___flags *)task)->flags);
	return flags & PF_EXITING;
}

/* The task that is process 1 in the namespace of a pid. */
static __always_inline struct task_struct *first_process(struct pid *pid, __u32 level)
{
	struct upid *own = (void *)pid + OFFSET(struct pid, numbers) +
			   (__u64)level * bpf_core_type_size(struct upid);
	struct pid_namespace *ns = 0;
	struct task_struct *first = 0;

	if (!bpf_core_read(&ns, sizeof(ns), &own->ns) && ns)
		bpf_core_read(&first, sizeof(first), &ns->child_reaper);
	return first;
}

/* The nearest ancestor that is a subreaper, NULL for none. *sure is 0 if one may be further up. */
static __always_inline struct task_struct *find_subreaper(struct task_struct *task, int *sure)
{
	for (int i = 0; i < MAX_ANCESTORS; i++) {
		struct signal_struct *signal = 0;

		if (bpf_core_read(&task, sizeof(task), &task->real_parent) || !task ||
		    bpf_core_read(&signal, sizeof(signal), &task->signal) || !signal)
			break;
		if (BPF_CORE_READ_BITFIELD_PROBED(signal, is_child_subreaper))
			return task;
	}
	*sure = task && !tgid_of(task); /* the parent of the first process, and of itself */
	return 0;
}

/*
 * As find_new_reaper() in the kernel does when the last thread of a group ends: the nearest
 * ancestor in the same pid namespace that is a subreaper, else process 1 of the namespace. If that
 * one is ending too the kernel may choose another. The verifier checks a global function once, for
 * any argument, and not for each path to it.
 */
__noinline __u32 find_reaper(__u64 task_address)
{
	struct task_struct *task = (void *)task_address, *reaper = 0;
	struct signal_struct *signal = 0;
	struct pid *pid = 0, *its = 0;
	__u32 level = 0, other = 0;
	int sure = 1;

	if (bpf_core_read(&signal, sizeof(signal), &task->signal) || !signal ||
	    bpf_core_read(&pid, sizeof(pid), &task->thread_pid) || !pid ||
	    bpf_core_read(&level, sizeof(level), &pid->level))
		return UNKNOWN_REAPER;
	if (BPF_CORE_READ_BITFIELD_PROBED(signal, has_child_subreaper))
		reaper = find_subreaper(task, &sure);
	if (reaper && (bpf_core_read(&its, sizeof(its), &reaper->thread_pid) || !its ||
		       bpf_core_read(&other, sizeof(other), &its->level)))
		return UNKNOWN_REAPER;
	if (!reaper || other != level)
		reaper = first_process(pid, level);
	if (!sure || !reaper || reaper == task || is_exiting(reaper))
		return UNKNOWN_REAPER;
	return tgid_of(reaper);
}

/*
 * The next parent of the children of a group that ends, 0 for no children. Threads that end
 * together can have had children, which are then elsewhere.
 */
static __always_inline __u32 next_parent(struct task_struct *task, struct signal_struct *signal)
{
	void *first = 0;
	int threads = 1;

	if (bpf_core_read(&first, sizeof(first), &task->children.next))
		return UNKNOWN_REAPER;
	bpf_core_read(&threads, sizeof(threads), &signal->nr_threads);
	if (first == (void *)task + OFFSET(struct task_struct, children) && threads <= 1)
		return 0;
	return find_reaper((__u64)task);
}

#endif
