/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The fields of fixed size in an event, read from a task. */
#ifndef QUARK_STATE_H
#define QUARK_STATE_H

#define OFFSET(type, member) bpf_core_field_offset(type, member)

static __always_inline struct pid *group_pid(struct signal_struct *signal, __u64 type)
{
	struct pid *pid = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), (void *)signal + OFFSET(struct signal_struct, pids) +
						 type * sizeof(void *));
	return pid;
}

static __always_inline void fill_credentials(struct event *e, const struct cred *cred)
{
	/* One read where the members have the order that all kernels so far have. */
	if (OFFSET(struct cred, egid) - OFFSET(struct cred, uid) == 20 &&
	    OFFSET(struct cred, euid) - OFFSET(struct cred, uid) == 16 &&
	    OFFSET(struct cred, suid) - OFFSET(struct cred, uid) == 8) {
		if (!bpf_probe_read_kernel(&e->uid, 24, (void *)cred + OFFSET(struct cred, uid)))
			e->known |= KNOWN_IDS;
	} else {
		int err = 0;

		err |= bpf_core_read(&e->uid, 4, &cred->uid.val);
		err |= bpf_core_read(&e->gid, 4, &cred->gid.val);
		err |= bpf_core_read(&e->suid, 4, &cred->suid.val);
		err |= bpf_core_read(&e->sgid, 4, &cred->sgid.val);
		err |= bpf_core_read(&e->euid, 4, &cred->euid.val);
		err |= bpf_core_read(&e->egid, 4, &cred->egid.val);
		if (!err)
			e->known |= KNOWN_IDS;
	}
	if (OFFSET(struct cred, cap_ambient) - OFFSET(struct cred, cap_inheritable) == 32 &&
	    OFFSET(struct cred, cap_bset) - OFFSET(struct cred, cap_inheritable) == 24 &&
	    OFFSET(struct cred, cap_effective) - OFFSET(struct cred, cap_inheritable) == 16 &&
	    OFFSET(struct cred, cap_permitted) - OFFSET(struct cred, cap_inheritable) == 8) {
		if (!bpf_probe_read_kernel(&e->caps, 40, (void *)cred + OFFSET(struct cred, cap_inheritable)))
			e->known |= KNOWN_CAPS;
	} else {
		int err = 0;

		err |= bpf_core_read(&e->caps[0], 8, &cred->cap_inheritable);
		err |= bpf_core_read(&e->caps[1], 8, &cred->cap_permitted);
		err |= bpf_core_read(&e->caps[2], 8, &cred->cap_effective);
		err |= bpf_core_read(&e->caps[3], 8, &cred->cap_bset);
		err |= bpf_core_read(&e->caps[4], 8, &cred->cap_ambient);
		if (!err)
			e->known |= KNOWN_CAPS;
	}
}

/* The pointer is NULL where the kernel was built without that kind of namespace. */
#define FILL_NAMESPACE(e, nsproxy, member, field, flag)                             \
	({                                                                          \
		if (bpf_core_field_exists((nsproxy)->member) &&                     \
		    bpf_core_field_exists((nsproxy)->member->ns.inum)) {            \
			typeof((nsproxy)->member) ns = 0;                           \
			bpf_core_read(&ns, sizeof(ns), &(nsproxy)->member);         \
			if (ns && !bpf_core_read(&(e)->field, 4, &ns->ns.inum))     \
				(e)->known |= flag;                                 \
		}                                                                   \
	})

static __always_inline void fill_namespaces(struct event *e, struct task_struct *task)
{
	struct nsproxy *nsproxy = 0;

	bpf_core_read(&nsproxy, sizeof(nsproxy), &task->nsproxy);
	if (!nsproxy) /* the thread has passed exit_task_namespaces() */
		return;
	FILL_NAMESPACE(e, nsproxy, uts_ns, uts, KNOWN_UTS);
	FILL_NAMESPACE(e, nsproxy, ipc_ns, ipc, KNOWN_IPC);
	FILL_NAMESPACE(e, nsproxy, mnt_ns, mnt, KNOWN_MNT);
	FILL_NAMESPACE(e, nsproxy, net_ns, net, KNOWN_NET);
}

struct terminal {
	__u32 major, minor;
};

/* Read the controlling terminal; 0:0 means none. Returns 1 if it could be read. */
static __always_inline int read_tty(struct terminal *t, struct signal_struct *signal)
{
	struct tty_struct *tty = 0;
	struct tty_driver *driver = 0;
	__s32 index = 0, minor_start = 0;

	if (!bpf_core_field_exists(signal->tty) || bpf_core_read(&tty, sizeof(tty), &signal->tty))
		return 0;
	if (!tty)
		return 1;
	bpf_core_read(&driver, sizeof(driver), &tty->driver);
	if (!driver || bpf_core_read(&index, 4, &tty->index) ||
	    bpf_core_read(&minor_start, 4, &driver->minor_start) ||
	    bpf_core_read(&t->major, 4, &driver->major))
		return 0;
	t->minor = minor_start + index;
	return 1;
}

static __always_inline void set_tty(struct event *e, const struct terminal *t)
{
	e->tty_major = t->major;
	e->tty_minor = t->minor;
	e->known |= KNOWN_TTY;
}

static __always_inline void fill_signal(struct event *e, struct signal_struct *signal)
{
	struct terminal t = {};

	if (bpf_core_field_exists(signal->pids)) {
		struct pid *pid;

		pid = group_pid(signal, bpf_core_enum_value(enum pid_type, PIDTYPE_PGID));
		if (pid && !bpf_core_read(&e->pgid, 4, &pid->numbers[0].nr))
			e->known |= KNOWN_PGID;
		pid = group_pid(signal, bpf_core_enum_value(enum pid_type, PIDTYPE_SID));
		if (pid && !bpf_core_read(&e->sid, 4, &pid->numbers[0].nr))
			e->known |= KNOWN_SID;
	}
	if (read_tty(&t, signal))
		set_tty(e, &t);
}

static __always_inline void begin_event(struct event *e, enum event_kind kind)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->time = bpf_ktime_get_ns();
	e->cpu = bpf_get_smp_processor_id();
	e->kind = kind;
}

/*
 * Fill e with the state of task. Start time and parent are those of the group's leader, even if
 * task is another thread: with the pid they identify the process. cred is NULL for the task's
 * own.
 */
static __always_inline void fill_event(struct event *e, enum event_kind kind, struct task_struct *task,
				       const struct cred *cred)
{
	struct task_struct *leader = 0, *parent = 0;
	struct signal_struct *signal = 0;

	begin_event(e, kind);
	bpf_core_read(&e->tgid, 4, &task->tgid);
	bpf_core_read(&e->tid, 4, &task->pid);
	if (bpf_core_field_exists(task->self_exec_id) && !bpf_core_read(&e->image, 2, &task->self_exec_id))
		e->image++;

	bpf_core_read(&leader, sizeof(leader), &task->group_leader);
	e->start = start_time(leader);
	if (e->start)
		e->known |= KNOWN_START;
	bpf_core_read(&parent, sizeof(parent), &leader->real_parent);
	if (parent && !bpf_core_read(&e->ppid, 4, &parent->tgid))
		e->known |= KNOWN_PPID;
	if (kind == EVENT_FORK && parent && !bpf_core_read(&e->parent_tid, 4, &parent->pid))
		e->known |= KNOWN_PARENT_TID;
	if (!bpf_core_read(&e->exit_signal, 4, &leader->exit_signal) && (int)e->exit_signal >= 0)
		e->known |= KNOWN_EXIT_SIGNAL;

	if (!cred)
		bpf_core_read(&cred, sizeof(cred), &task->real_cred);
	fill_credentials(e, cred);
	fill_namespaces(e, task);
	bpf_core_read(&signal, sizeof(signal), &task->signal);
	if (signal)
		fill_signal(e, signal);
	if (!bpf_core_read(&e->comm, sizeof(e->comm), &task->comm))
		e->known |= KNOWN_COMM;
}

#endif
