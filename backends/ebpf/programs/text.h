/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The texts in a record: paths and arguments.
 *
 * A path is written from the leaf to the root, each component with its NUL; user space reverses it.
 * Three rules keep the verifier's work small, as it follows each round of a loop by itself:
 *
 *  - A walk is a global function with numbers as arguments: the verifier checks it once, not once
 *    for each caller. 5.10 allows no pointers as such arguments.
 *  - The cursor is in the slot's memory (slot.used), not in a register: a reloaded value has the
 *    same bounds in each round, so that the verifier can prune rounds.
 *  - A walk is split into functions of STEPS_AT_ONCE steps, with its position in the slot.
 */
#ifndef QUARK_TEXT_H
#define QUARK_TEXT_H

/* Enough for 100 components and the mounts between them. */
#define PATH_STEPS 160
#define CGROUP_STEPS 64
#define STEPS_AT_ONCE 8
#define CHECKS_AT_ONCE 16

LIMIT(path_rounds, PATH_STEPS / STEPS_AT_ONCE);
LIMIT(cgroup_rounds, CGROUP_STEPS / STEPS_AT_ONCE);
LIMIT(path_attempts, 4);
LIMIT(path_checks, SEEN_MASK);

#define CONTINUE (-1) /* the walk is not at its end; besides the values of enum text_form */

/* Append a name. Returns 0, or the form of the path if it ends here for lack of room. */
static __always_inline int append_name(struct slot *s, __u32 begin, const void *name)
{
	__u64 used = s->used;
	long n;

	if (used + NAME_MAX > begin + PATH_MAX)
		return TEXT_PATH_CUT;
	n = bpf_probe_read_kernel_str(&s->record.data[used & DATA_MASK], NAME_MAX, name);
	if (n <= 0)
		return TEXT_PATH_CUT;
	s->used = used + n;
	return 0;
}

/*
 * What a walk reads of a dentry. In most kernels these members follow each other: they are read
 * with one call, in the order of their addresses.
 */
struct link {
	__u32 flags, seq;
	__u64 hash[2];
	struct dentry *parent;
	__u64 name_hash;
	const void *name;
};

static __always_inline int read_link(struct link *l, struct dentry *dentry)
{
	l->seq = 0;
	if (bpf_core_field_exists(dentry->d_seq)) {
		__u32 seq = OFFSET(struct dentry, d_seq);

		if (!READS_DIRECTLY(8) && OFFSET(struct dentry, d_parent) - seq == 20 &&
		    OFFSET(struct dentry, d_name.name) - seq == 36)
			return bpf_probe_read_kernel(&l->seq, 44, (void *)dentry + seq);
		if (read_kernel(&l->seq, sizeof(l->seq), (void *)dentry + seq))
			return -1;
	}
	return bpf_core_read(&l->parent, sizeof(l->parent), &dentry->d_parent) ||
	       bpf_core_read(&l->name, sizeof(l->name), &dentry->d_name.name);
}

/*
 * Renames and moves of mounts during a walk could make a path that never existed, of names and
 * parents of different times. A rename increments the dentry's d_seq before and after, as the
 * kernel's seqcounts do. So a walk records the d_seq of each dentry, and of each mount the place
 * where it is mounted. If all are unchanged when they are read again, then at some moment between
 * the two readings the path was as the walk read it. The kernel frees dentries and mounts by RCU,
 * so their memory is not used again while the program runs.
 */
static __always_inline void note(struct slot *s, const void *at, __u32 value)
{
	struct seen *seen = &s->seen[s->notes++ & SEEN_MASK];

	seen->at = (__u64)at;
	seen->value = value;
}

/*
 * Go from the root of a mount to where it is mounted. Returns CONTINUE, or the form of the path if
 * it ends here: the top of all mounts is not below the process's root if the walk has not come
 * across that one. The path is out of the process's reach, as in a mount that is detached.
 */
static __always_inline int leave_mount(struct slot *s)
{
	struct mount *m = (void *)s->mnt - OFFSET(struct mount, mnt), *up;
	struct two place; /* parent, mountpoint */
	struct vfsmount *mnt;

	if (READ_TWO(&place, m, struct mount, mnt_parent, mnt_mountpoint))
		return TEXT_PATH_CUT;
	up = (void *)place.first;
	if (up == m)
		return TEXT_UNKNOWN;
	mnt = (void *)up + OFFSET(struct mount, mnt);
	s->dentry = place.second;
	s->mnt = (__u64)mnt;
	if (bpf_core_read(&s->mnt_root, sizeof(s->mnt_root), &mnt->mnt_root) || !s->mnt_root)
		return TEXT_PATH_CUT;
	/* The lower halves of the pointers. */
	note(s, (void *)m + OFFSET(struct mount, mnt_parent), place.first);
	note(s, (void *)m + OFFSET(struct mount, mnt_mountpoint), place.second);
	return CONTINUE;
}

/*
 * Append the next component of a path, up to the root given. The argument first is 1 at the start
 * of the path. Returns an enum text_form, or CONTINUE.
 */
static __always_inline int walk_step(struct slot *s, __u64 root, __u64 root_on, __u32 begin, int first)
{
	struct dentry *dentry = (void *)s->dentry;
	struct link l;
	int form;

	if (s->dentry == root && s->mnt == root_on)
		return TEXT_PATH;
	if (s->dentry == s->mnt_root)
		return leave_mount(s);
	if (read_link(&l, dentry))
		return TEXT_PATH_CUT;
	form = append_name(s, begin, l.name);
	if (form)
		return form;
	if (bpf_core_field_exists(dentry->d_seq))
		note(s, (void *)dentry + OFFSET(struct dentry, d_seq), l.seq);
	/* As the first dentry: a file without a directory, such as a memfd. Later: the path is
	 * disconnected from the root of its mount. */
	if (dentry == l.parent)
		return first ? TEXT_BYTES : TEXT_PATH_CUT;
	s->dentry = (__u64)l.parent;
	return CONTINUE;
}

__attribute__((noinline)) int walk_steps(__u32 index, __u64 root, __u64 root_on, __u32 begin, __u32 first)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);

	if (!s)
		return TEXT_UNKNOWN;
	for (int i = 0; i < STEPS_AT_ONCE; i++) {
		int form = walk_step(s, root, root_on, begin, first && i == 0);

		if (form != CONTINUE)
			return form;
	}
	return CONTINUE;
}

/* Returns 0, or an error. */
static __always_inline int begin_walk(struct slot *s, __u64 at, __u64 on)
{
	struct vfsmount *mnt = (void *)on;

	s->dentry = at;
	s->mnt = on;
	s->notes = 0;
	return bpf_core_read(&s->mnt_root, sizeof(s->mnt_root), &mnt->mnt_root) || !s->mnt_root;
}

/* Append a path, as the dentries are. Returns an enum text_form. */
__attribute__((noinline)) int walk_once(__u32 index, __u64 at, __u64 on, __u64 root, __u64 root_on)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	__u32 begin;

	if (!s || begin_walk(s, at, on))
		return TEXT_UNKNOWN;
	begin = s->used;
	for (int i = 0; i < path_rounds; i++) {
		int form = walk_steps(index, root, root_on, begin, i == 0);

		if (form != CONTINUE)
			return form;
	}
	return TEXT_PATH_CUT;
}

/* Whether a value that a walk has noted is as it was. */
static __always_inline int is_unchanged(const struct seen *seen)
{
	__u32 now;

	return !read_kernel(&now, sizeof(now), (void *)seen->at) && now == seen->value &&
	       !(now & 1); /* odd: a rename is under way */
}

/* Whether the next values that the last walk has noted are as they were: 0, 1 or CONTINUE. */
__attribute__((noinline)) int unchanged_steps(__u32 index, __u32 from)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);

	if (!s)
		return 0;
	for (__u32 i = 0; i < CHECKS_AT_ONCE; i++) {
		if (from + i >= s->notes)
			return 1;
		if (!is_unchanged(&s->seen[(from + i) & SEEN_MASK]))
			return 0;
	}
	return CONTINUE;
}

/* Whether all that the last walk has noted is as it was. */
__attribute__((noinline)) int unchanged(__u32 index)
{
	for (int i = 0; i <= path_checks; i += CHECKS_AT_ONCE) {
		int same = unchanged_steps(index, i);

		if (same != CONTINUE)
			return same;
	}
	return 0;
}

/* Append a path. Returns an enum text_form: TEXT_UNKNOWN if renames disturb each attempt. */
__attribute__((noinline)) int walk_path(__u32 index, __u64 at, __u64 on, __u64 root, __u64 root_on)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	__u32 begin;

	if (!s)
		return TEXT_UNKNOWN;
	begin = s->used;
	for (int i = 0; i < path_attempts; i++) {
		int form = FORGOTTEN(s, walk_once(index, at, on, root, root_on));

		if (unchanged(index))
			return form;
		s->used = begin;
	}
	return TEXT_UNKNOWN;
}

/* Append the next component of a cgroup's path. Returns an enum text_form, or CONTINUE. */
static __always_inline int walk_cgroup_step(struct slot *s, __u32 begin)
{
	struct kernfs_node *kn = (void *)s->node;
	struct two node; /* parent, name */
	int form, err;

	if (bpf_core_field_exists(kn->parent))
		err = READ_TWO(&node, kn, struct kernfs_node, parent, name);
	else
		err = READ_TWO(&node, kn, struct kernfs_node___6_15, __parent, name);
	if (err || !node.second) /* the root has an empty name */
		return TEXT_PATH_CUT;
	if (!node.first)
		return TEXT_PATH;
	form = append_name(s, begin, (void *)node.second);
	if (form)
		return form;
	s->node = node.first;
	return CONTINUE;
}

__attribute__((noinline)) int walk_cgroup_steps(__u32 index, __u32 begin)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);

	if (!s)
		return TEXT_UNKNOWN;
	for (int i = 0; i < STEPS_AT_ONCE; i++) {
		int form = walk_cgroup_step(s, begin);

		if (form != CONTINUE)
			return form;
	}
	return CONTINUE;
}

/* Append the path of a cgroup in its hierarchy. Returns an enum text_form. */
__attribute__((noinline)) int walk_cgroup(__u32 index, __u64 node)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	__u32 begin;

	if (!s)
		return TEXT_UNKNOWN;
	begin = s->used;
	s->node = node;
	for (int i = 0; i < cgroup_rounds; i++) {
		int form = walk_cgroup_steps(index, begin);

		if (form != CONTINUE)
			return form;
	}
	return TEXT_PATH_CUT;
}

/*
 * A length that is at most max, for verifiers before Linux 5.10. They apply a comparison only to
 * the compared register, and not to another register with the same value.
 */
#define BOUND_LEN(len, max)                  \
	do {                                 \
		barrier_var(len);            \
		if ((len) > (max))           \
			return TEXT_UNKNOWN; \
	} while (0)

/*
 * Copy the current process's arguments to the start of the slot's data. Returns an enum
 * text_form.
 */
__attribute__((noinline)) int copy_argv(__u32 index, __u64 start, __u64 end)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	__u64 len = end - start;
	int form = TEXT_BYTES;

	if (!s || !start || end < start)
		return TEXT_UNKNOWN;
	if (len > ARGV_MAX) {
		len = ARGV_MAX;
		form = TEXT_BYTES_CUT;
	}
	BOUND_LEN(len, ARGV_MAX);
	if (!bpf_probe_read_user(s->record.data, len, (void *)start)) {
		s->used = len;
		return form;
	}
	/* A page is not resident: report the arguments before it. */
	for (__u64 at = 0; at < ARGV_MAX; at += 1024) {
		if (at + 1024 > len || bpf_probe_read_user(&s->record.data[at], 1024, (void *)start + at))
			break;
		s->used = at + 1024;
	}
	return s->used ? TEXT_BYTES_CUT : TEXT_UNKNOWN;
}

/*
 * An execve leaves the requested path at the end of the environment. The path of an execveat,
 * /dev/fd/NUMBER/PATH, can be longer than others. Append it to the slot's data, as enum text_form.
 */
#define ASKED_MAX (PATH_MAX + 32)
__attribute__((noinline)) int copy_asked(__u32 index, __u64 mm_address)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct mm_struct *mm = (void *)mm_address;
	__u64 end = 0, used;
	long n;

	if (!s || !mm || !bpf_core_field_exists(mm->env_end) || bpf_core_read(&end, sizeof(end), &mm->env_end))
		return TEXT_UNKNOWN;
	used = s->used;
	if (used > DATA_MASK + 1 - ASKED_MAX)
		return TEXT_UNKNOWN;
	n = bpf_probe_read_user_str(&s->record.data[used], ASKED_MAX, (void *)end);
	if (n <= 0)
		return TEXT_UNKNOWN;
	s->used = used + n;
	return n < ASKED_MAX ? TEXT_BYTES : TEXT_BYTES_CUT;
}

/* Append the current process's environment to the slot's data. Returns an enum text_form. */
__attribute__((noinline)) int copy_environ(__u32 index, __u64 start, __u64 end)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	__u64 len = end - start, begin;
	int form = TEXT_BYTES;

	if (!want_environ || !s || !start || end < start || s->used > DATA_MASK)
		return TEXT_UNKNOWN;
	if (len > ENVIRON_MAX) {
		len = ENVIRON_MAX;
		form = TEXT_BYTES_CUT;
	}
	BOUND_LEN(len, ENVIRON_MAX);
	begin = s->used & DATA_MASK;
	if (!bpf_probe_read_user(&s->record.data[begin], len, (void *)start)) {
		s->used = begin + len;
		return form;
	}
	/* As in copy_argv. */
	for (__u64 at = 0; at < ENVIRON_MAX; at += 1024) {
		if (at + 1024 > len || bpf_probe_read_user(&s->record.data[begin + at], 1024, (void *)start + at))
			break;
		s->used = begin + at + 1024;
	}
	return s->used > begin ? TEXT_BYTES_CUT : TEXT_UNKNOWN;
}

static __always_inline void append_environ(struct slot *s, __u32 index, struct mm_struct *mm)
{
	struct two range = {};

	if (!bpf_core_field_exists(mm->env_start) || READ_TWO(&range, mm, struct mm_struct, env_start, env_end))
		return;
	switch (copy_environ(index, range.first, range.second)) {
	case TEXT_BYTES_CUT:
		s->record.event.known |= KNOWN_ENVIRON_CUT;
		/* fall through */
	case TEXT_BYTES:
		s->record.event.known |= KNOWN_ENVIRON;
	}
}

enum cgroup_source { CGROUP_NONE, CGROUP_V2, CGROUP_PIDS };
const volatile enum cgroup_source cgroup_from = CGROUP_NONE;

static __always_inline struct kernfs_node *cgroup_node(struct task_struct *task)
{
	struct kernfs_node *kn = 0;
	struct cgroup *cgroup = 0;
	struct css_set *set = 0;

	bpf_core_read(&set, sizeof(set), &task->cgroups);
	if (!set)
		return 0;
	if (cgroup_from == CGROUP_V2 && bpf_core_field_exists(set->dfl_cgrp)) {
		bpf_core_read(&cgroup, sizeof(cgroup), &set->dfl_cgrp);
	} else if (cgroup_from == CGROUP_PIDS && bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id)) {
		struct cgroup_subsys_state *css = 0;

		read_kernel(&css, sizeof(css),
			    (void *)set + OFFSET(struct css_set, subsys) +
				    bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id) * sizeof(void *));
		if (css)
			bpf_core_read(&cgroup, sizeof(cgroup), &css->cgroup);
	}
	if (cgroup)
		bpf_core_read(&kn, sizeof(kn), &cgroup->kn);
	return kn;
}

static __always_inline void end_text(struct slot *s, struct text *text, int form, __u32 begin)
{
	if (form == TEXT_UNKNOWN)
		s->used = begin;
	text->form = form;
	text->len = s->used - begin;
}

/* The last change of an inode, by the member that this kernel has. */
struct change {
	__s64 sec;
	__u32 nsec;
};

#define READ_CHANGE(c, base, second, nanosecond)                             \
	(READ_SPAN(span, base, second) ||                                    \
	 FROM_SPAN(&(c)->sec, span, base, second, second) ||                 \
	 FROM_SPAN(&(c)->nsec, span, base, second, nanosecond))

static __always_inline int read_change(struct change *c, struct inode *inode)
{
	struct inode___6_6 *inode_6_6 = (void *)inode;
	struct inode___6_11 *inode_6_11 = (void *)inode;
	__u64 span[3];

	if (bpf_core_field_exists(inode->i_ctime))
		return READ_CHANGE(c, inode, i_ctime.tv_sec, i_ctime.tv_nsec);
	if (bpf_core_field_exists(inode_6_6->__i_ctime))
		return READ_CHANGE(c, inode_6_6, __i_ctime.tv_sec, __i_ctime.tv_nsec);
	if (bpf_core_field_exists(inode_6_11->i_ctime_sec) && bpf_core_field_exists(inode_6_11->i_ctime_nsec))
		return READ_CHANGE(c, inode_6_11, i_ctime_sec, i_ctime_nsec);
	return -1;
}

#define CTIME_QUERIED 0x80000000 /* linux/fs.h: a flag in i_ctime_nsec since 6.13 */

#define OVERLAYFS_SUPER_MAGIC 0x794c7630 /* linux/magic.h */

/*
 * Whether an inode of a file system has the number that stat(2) says. Linux 4.17 to 5.4 may give
 * one of overlayfs another. nsproxy.time_ns is there since 5.6.
 */
static __always_inline int is_numbered(struct super_block *sb)
{
	struct nsproxy *nsproxy = 0;
	unsigned long magic = 0;

	if (bpf_core_field_exists(nsproxy->time_ns))
		return 1;
	return bpf_core_field_exists(sb->s_magic) && !bpf_core_read(&magic, sizeof(magic), &sb->s_magic) &&
	       magic != OVERLAYFS_SUPER_MAGIC;
}

/*
 * Set the record's executable from the open file at an address. A change of the inode meanwhile
 * sets its time of change: if that differs afterwards the executable is unknown.
 */
__attribute__((noinline)) int read_executable(__u32 index, __u64 file)
{
	struct slot *s = bpf_map_lookup_elem(&slots, &index);
	struct file *exe = (void *)file;
	struct change before = {}, after = {};
	struct super_block *sb = 0;
	struct inode *inode = 0;
	struct executable *x;
	__u16 mode = 0;

	if (!s)
		return 0;
	x = &s->record.executable;
	__builtin_memset(x, 0, sizeof(*x));
	if (!exe || !bpf_core_field_exists(exe->f_inode) || !bpf_core_field_exists(inode->i_mode) ||
	    !bpf_core_field_exists(sb->s_dev) || bpf_core_read(&inode, sizeof(inode), &exe->f_inode) ||
	    read_change(&before, inode))
		return 0;
	{
		__u64 span[10]; /* from i_mode to i_nlink */

		if (READ_SPAN(span, inode, i_mode) ||
		    FROM_SPAN(&mode, span, inode, i_mode, i_mode) ||
		    FROM_SPAN(&x->uid, span, inode, i_mode, i_uid.val) ||
		    FROM_SPAN(&x->gid, span, inode, i_mode, i_gid.val) ||
		    FROM_SPAN(&x->inode, span, inode, i_mode, i_ino) ||
		    FROM_SPAN(&x->links, span, inode, i_mode, i_nlink) ||
		    FROM_SPAN(&sb, span, inode, i_mode, i_sb))
			return 0;
	}
	if (!is_numbered(sb) || bpf_core_read(&x->device, 4, &sb->s_dev) || read_change(&after, inode) ||
	    before.sec != after.sec || (before.nsec ^ after.nsec) & ~CTIME_QUERIED)
		return 0;
	x->ctime_sec = before.sec;
	x->ctime_nsec = before.nsec & ~CTIME_QUERIED;
	x->mode = mode;
	return 0;
}

/* Read a struct path, a member of *in, as mount and dentry. */
#define READ_PATH(to, in, type, member) READ_TWO(to, in, type, member.mnt, member.dentry)

/* Functions that append paths as walk_path and walk_cgroup do. */
struct walks {
	int (*path)(__u32 index, __u64 at, __u64 on, __u64 root, __u64 root_on);
	int (*cgroup)(__u32 index, __u64 node);
};

/* Append a path, which is 0 if it could not be read, as seen from root. */
static __always_inline void append_path(struct slot *s, __u32 index, struct text *text,
					const struct two *path, const struct two *root,
					const struct walks *walks)
{
	int form = TEXT_UNKNOWN;
	__u32 begin = s->used;

	if (path->first && path->second && root->second)
		form = FORGOTTEN(s, walks->path(index, path->second, path->first, root->second, root->first));
	end_text(s, text, form, begin);
}

/* Append the executable if exe is not NULL, then working directory and cgroup. */
static __always_inline void append_paths(struct slot *s, __u32 index, struct task_struct *task,
					 struct file *exe, const struct walks *walks)
{
	struct two root = {}, at = {};
	struct kernfs_node *kn;
	struct fs_struct *fs = 0;
	__u32 begin;
	int form = TEXT_UNKNOWN;

	bpf_core_read(&fs, sizeof(fs), &task->fs);
	if (fs)
		READ_PATH(&root, fs, struct fs_struct, root);
	if (exe)
		READ_PATH(&at, exe, struct file, f_path);
	append_path(s, index, &s->record.filename, &at, &root, walks);
	at.first = 0;
	if (fs)
		READ_PATH(&at, fs, struct fs_struct, pwd);
	append_path(s, index, &s->record.cwd, &at, &root, walks);

	begin = s->used;
	kn = cgroup_node(task);
	if (kn)
		form = FORGOTTEN(s, walks->cgroup(index, (__u64)kn));
	end_text(s, &s->record.cgroup, form, begin);
}

#endif
