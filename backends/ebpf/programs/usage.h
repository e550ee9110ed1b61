/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The usage of a thread group when its last thread passes sched_process_exit, without the rest of
 * its end. A thread that is released adds its figures to the group's and leaves the list of
 * threads, in one critical section of signal->stats_lock.
 */
#ifndef QUARK_USAGE_H
#define QUARK_USAGE_H

#define MOST_THREADS 64 /* not released yet; the usage of larger groups is unknown */
LIMIT(most_tries, 4); /* while others are released */

/* What the kernel's types lack is unknown. */
static __always_inline int have_usage(struct task_struct *task)
{
	struct signal_struct *signal = 0;

	return bpf_core_field_exists(signal->stats_lock) && bpf_core_field_exists(signal->prev_cputime) &&
	       bpf_core_field_exists(signal->sum_sched_runtime) && bpf_core_field_exists(task->thread_node);
}

static __always_inline int have_io(struct task_struct *task)
{
	struct signal_struct *signal = 0;

	return bpf_core_field_exists(task->ioac.rchar) && bpf_core_field_exists(task->ioac.write_bytes) &&
	       bpf_core_field_exists(signal->ioac.rchar) && bpf_core_field_exists(signal->ioac.write_bytes) &&
	       bpf_core_field_exists(signal->cutime) && bpf_core_field_exists(signal->cmaxrss);
}

/* Add what a thread has used. Returns 0, or an error. */
static __always_inline long add_thread(struct usage *u, struct task_struct *task)
{
	struct two two = {};
	__u64 run = 0;
	long err = READ_TWO(&two, task, struct task_struct, utime, stime);

	u->utime += two.first;
	u->stime += two.second;
	err |= bpf_core_read(&run, sizeof(run), &task->se.sum_exec_runtime);
	u->run += run;
	if (have_io(task)) {
		err |= READ_TWO(&two, task, struct task_struct, ioac.rchar, ioac.wchar);
		u->rchar += two.first;
		u->wchar += two.second;
		err |= READ_TWO(&two, task, struct task_struct, ioac.read_bytes, ioac.write_bytes);
		u->read_bytes += two.first;
		u->write_bytes += two.second;
	}
	return err;
}

/* Set the I/O of u to the released threads' I/O. The kernel adds it to the I/O of the children
 * that were waited for. Returns whether the two are separable: there were no such children, or
 * no such threads, as the separate CPU times show. The kernel may count 0 memory for a small
 * child, and 0 time if the clock is coarse. */
static __always_inline int set_group_io(struct usage *u, struct signal_struct *signal)
{
	struct two times = {};
	unsigned long rss = 0;
	long err = READ_TWO(&times, signal, struct signal_struct, cutime, cstime);

	err |= bpf_core_read(&rss, sizeof(rss), &signal->cmaxrss);
	if (err)
		return 0;
	if (times.first || times.second || rss)
		return !u->run;
	err |= READ_TWO((struct two *)&u->rchar, signal, struct signal_struct, ioac.rchar, ioac.wchar);
	err |= READ_TWO((struct two *)&u->read_bytes, signal, struct signal_struct, ioac.read_bytes, ioac.write_bytes);
	return !err;
}

/* Set u, which is 0, to the usage of the released threads, and to the values of the group.
 * Returns the known fields. */
static __always_inline __u32 set_group(struct usage *u, struct task_struct *task, struct signal_struct *signal)
{
	long err = READ_TWO((struct two *)&u->utime, signal, struct signal_struct, utime, stime);

	err |= READ_TWO((struct two *)&u->shown_utime, signal, struct signal_struct, prev_cputime.utime,
			prev_cputime.stime);
	err |= bpf_core_read(&u->run, sizeof(u->run), &signal->sum_sched_runtime);
	err |= bpf_core_read(&u->peak_rss, sizeof(u->peak_rss), &signal->maxrss);
	if (err)
		return 0;
	return have_io(task) && set_group_io(u, signal) ? ~0 : ~KNOWN_IO;
}

/* What add_threads makes, in the slot's memory for belongings. */
struct threads {
	struct usage usage;
	__u64 memories; /* the sum of the addresses of their mm_structs */
};
_Static_assert(sizeof(struct threads) <= sizeof(((struct slot *)0)->belongings), "it has room");

/* Add to those in a slot what a thread has used. Returns 0, or an error. The verifier checks a
 * function that is not static once, and not for each call. */
__attribute__((noinline)) int add_to_slot(__u32 index, __u64 address)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct task_struct *task = (void *)address;
	struct mm_struct *mm = 0;
	struct threads *sum;
	long err;

	if (!s || !have_usage(task))
		return 1;
	sum = (void *)s->belongings;
	err = add_thread(&sum->usage, task) | bpf_core_read(&mm, sizeof(mm), &task->mm);
	sum->memories += (__u64)mm;
	return err != 0;
}

/* The list of MOST_THREADS threads and its head are so many steps. The verifier follows each step
 * of a loop by itself, and a function only once. */
#define THREADS_AT_ONCE 13
_Static_assert((MOST_THREADS + 1) % THREADS_AT_ONCE == 0, "whole rounds");

/* Add the next threads of a group's list to those in a slot. Returns where to go on, 0 at the end,
 * or 1 for an error. */
__attribute__((noinline)) __u64 add_next_threads(__u32 index, __u64 head, __u64 at)
{
	struct task_struct *task = 0;

	if (!have_usage(task))
		return 1;
	for (int i = 0; i < THREADS_AT_ONCE; i++) {
		struct list_head *entry = (void *)at;

		if (bpf_core_read(&at, sizeof(at), &entry->next))
			return 1;
		if (at == head)
			return 0;
		if (add_to_slot(index, at - OFFSET(struct task_struct, thread_node)))
			return 1;
	}
	return at;
}

/* Add to a slot what the threads have used that are not released. Returns 0, or an error. */
static __always_inline int add_threads(__u32 index, struct signal_struct *signal)
{
	__u64 head = (__u64)signal + OFFSET(struct signal_struct, thread_head), at = head;

	for (int i = 0; i <= MOST_THREADS / THREADS_AT_ONCE; i++) {
		at = add_next_threads(index, head, at);
		if (at <= 1)
			return at;
	}
	return 1;
}

/* Sum up, in a slot, what a group of several threads has used. Returns what of it is known. */
__attribute__((noinline)) __u32 sum_group(__u32 index, __u64 task_address, __u64 signal_address)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct task_struct *task = (void *)task_address;
	struct signal_struct *signal = (void *)signal_address;
	__u32 before = 0, after = 0, known;
	struct mm_struct *mm = 0;
	struct threads *sum;

	if (!s || !have_usage(task))
		return 0;
	sum = (void *)s->belongings;
	__builtin_memset(sum, 0, sizeof(*sum));
	bpf_core_read(&before, sizeof(before), &signal->stats_lock);
	known = set_group(&sum->usage, task, signal);
	if (!known || add_threads(index, signal))
		return 0;
	bpf_core_read(&after, sizeof(after), &signal->stats_lock);
	if (before != after || before & 1)
		return 0;
	/* The last thread to live writes the group's peak, and then gives up its memory. Another
	 * one may be here before it. */
	bpf_core_read(&mm, sizeof(mm), &task->mm);
	return sum->memories == (__u64)mm ? known : known & ~KNOWN_PEAK_RSS;
}

/* Apart from fill_event, which has a large frame on the stack. */
static __noinline void fill_usage(struct exit_event *x, struct task_struct *task, struct signal_struct *signal)
{
	struct usage *u = &x->usage;
	__u32 known = 0, index = 0;
	int threads = 0;

	if (!have_usage(task))
		return;
	bpf_core_read(&threads, sizeof(threads), &signal->nr_threads);
	if (threads == 1) {
		known = set_group(u, task, signal);
		if (known && add_thread(u, task))
			known = 0;
	} else if (!bpf_map_pop_elem(&free_slots, &index)) {
		struct slot *s = bpf_map_lookup_elem(&slots, &index);

		for (int i = 0; i < most_tries && !known; i++)
			known = sum_group(index, (__u64)task, (__u64)signal);
		if (s)
			*u = ((struct threads *)s->belongings)->usage;
		put_slot(index);
	}
	x->event.known |= known & (KNOWN_CPU_TIME | KNOWN_PEAK_RSS | KNOWN_IO);
}

#endif
