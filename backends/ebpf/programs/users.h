/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where only the processes of some users are reported: which ones are followed. A process is
 * followed from its birth if its user is one of them, else from the first event at which that is
 * so, and if it exists when user space takes the processes that exist. It is followed to its end,
 * whoever its user is then. So of each process in user space's table all later events are
 * reported, and the table is right.
 *
 * The programs look at this before they mark or claim an event, see twin.h, as that costs most of
 * what an event costs that is left out. Of one that the kernel skipped the first program for, the
 * second does not tell that it did not matter: it counts as lost.
 */
#ifndef QUARK_USERS_H
#define QUARK_USERS_H

#define MAX_USERS 16

const volatile __u32 user_count = 0; /* 0: all processes are reported */
const volatile __u32 users[MAX_USERS] = {};

/* Written by user space: 0 while all processes that have an event are followed, for as long as it
 * takes those that exist. */
volatile __u32 scoped;

enum following { NOT, FOLLOWS, ENDED };

#define TGIDS_PER_PAGE 4096 /* a power of two */

/*
 * By tgid, which is below 1 << 22. An array, as most programs that look here leave the event out:
 * it takes less of their time than a hash, and always has room. Of one process it is written to by
 * one program at a time, but for those that write the same.
 */
struct following_page {
	__u8 of[TGIDS_PER_PAGE]; /* enum following */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct following_page);
} followed SEC(".maps");

/* Returns NULL if there is no such tgid. */
static __always_inline __u8 *following_of(__u32 tgid)
{
	__u32 page = tgid / TGIDS_PER_PAGE;
	struct following_page *p = bpf_map_lookup_elem(&followed, &page);

	return p ? &p->of[tgid % TGIDS_PER_PAGE] : 0;
}

/* Of the current task a helper knows the tgid, which costs a tenth of a read. */
static __always_inline __u8 *following(struct task_struct *task)
{
	return following_of(task == current_task() ? bpf_get_current_pid_tgid() >> 32 : tgid_of(task));
}

/*
 * Whether the user of cred, or of task if that is NULL, is one of those that are asked for. A child
 * has the current task's user at its birth, which a helper knows without a read.
 */
static __always_inline int is_wanted(struct task_struct *task, const struct cred *cred, int birth)
{
	__u32 uid;

	if (!cred && (birth || task == current_task())) {
		uid = bpf_get_current_uid_gid();
	} else {
		if (!cred)
			bpf_core_read(&cred, sizeof(cred), &task->real_cred);
		if (bpf_core_read(&uid, sizeof(uid), &cred->uid.val))
			return 1;
	}
	for (int i = 0; i < MAX_USERS; i++)
		if (i < user_count && users[i] == uid)
			return 1;
	return 0;
}

/*
 * Whether an event of task, which may be a thread, is to be left out. cred is what its credentials
 * become with the event, NULL if they stay. birth: it is that of a process.
 */
static __always_inline int is_left_out(struct task_struct *task, const struct cred *cred, int birth)
{
	if (!user_count || !scoped)
		return 0;
	if (!birth) {
		__u8 *state = following(task);

		if (state && *state != NOT)
			return 0;
	}
	return !is_wanted(task, cred, birth);
}

/* The same, and if the event is not left out the process is followed from now on. */
static __always_inline int left_out(struct task_struct *task, const struct cred *cred, int birth)
{
	__u8 *state;

	if (!user_count)
		return 0;
	if (is_left_out(task, cred, birth))
		return 1;
	state = following(task);
	if (state && (birth || *state == NOT))
		*state = FOLLOWS;
	return 0;
}

/* The process of task has ended. The second of the two programs of the end makes it be followed no
 * more: both have to find the same. */
static __always_inline void end_following(struct task_struct *task)
{
	__u8 *state;

	if (!user_count)
		return;
	state = following(task);
	if (state && *state != NOT)
		*state = ENDED;
}

static __always_inline void forget_ended(struct task_struct *task)
{
	__u8 *state;

	if (!user_count)
		return;
	state = following(task);
	if (state && *state == ENDED)
		*state = NOT;
}

#endif
