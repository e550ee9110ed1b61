/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The fields of fixed size in an event, read from a task. */
#ifndef QUARK_STATE_H
#define QUARK_STATE_H

#define OFFSET(type, member) bpf_core_field_offset(type, member)

/*
 * A call to read the kernel's memory takes as long for 4 bytes as for 100. So members that are near
 * each other are read together, into an array of 8-byte words that begins with the first of them.
 * A member that a kernel has elsewhere is read by itself, as are all where that takes no call. All
 * offsets are constants when a program is loaded.
 */
#define READ_SPAN(span, base, first)                                                \
	(READS_DIRECTLY(8) ? 0 :                                                    \
	 bpf_probe_read_kernel(span, sizeof(span),                                  \
			       (void *)(base) + bpf_core_field_offset((base)->first)))

/* Take a member out of a span into *to. The barrier: else the compiler may add to an address by |,
 * which the verifier refuses. */
#define FROM_SPAN(to, span, base, first, member)                                          \
	({                                                                                \
		__u64 at = bpf_core_field_offset((base)->member);                         \
		int err = 0;                                                              \
		at -= bpf_core_field_offset((base)->first);                               \
		barrier_var(at);                                                          \
		if (!READS_DIRECTLY(8) && at <= sizeof(span) - sizeof(*(to)) &&           \
		    at % _Alignof(typeof(*(to))) == 0)                                    \
			*(to) = *(typeof(to))((void *)(span) + at);                       \
		else                                                                      \
			err = bpf_core_read(to, sizeof(*(to)), &(base)->member);          \
		err;                                                                      \
	})

/* Two words of 8 bytes, which in most kernels follow each other. */
struct two {
	__u64 first, second;
};

static __always_inline int read_two(struct two *to, const void *base, __u64 first, __u64 second)
{
	if (second - first == 8)
		return read_kernel(to, sizeof(*to), base + first);
	return read_kernel(&to->first, 8, base + first) ||
	       read_kernel(&to->second, 8, base + second);
}

#define READ_TWO(to, base, type, first, second) \
	read_two(to, base, OFFSET(type, first), OFFSET(type, second))

/* Whether task is not the leader of its thread group. */
static __always_inline int is_thread(struct task_struct *task)
{
	__u32 ids[2] = {}; /* tid, tgid */

	if (OFFSET(struct task_struct, tgid) - OFFSET(struct task_struct, pid) != 4)
		return tid_of(task) != tgid_of(task);
	bpf_core_read(ids, sizeof(ids), &task->pid);
	return ids[0] != ids[1];
}

/*
 * The pointer is NULL where the kernel was built without that kind of namespace. No namespace has
 * the number 0, which a direct read gives where there is no memory.
 */
#define FILL_NAMESPACE(e, span, base, first, member, field, flag)                                  \
	({                                                                                         \
		if (bpf_core_field_exists((base)->member) &&                                       \
		    bpf_core_field_exists((base)->member->ns.inum)) {                              \
			typeof((base)->member) ns = 0;                                             \
			FROM_SPAN(&ns, span, base, first, member);                                 \
			if (ns && !bpf_core_read(&(e)->field, 4, &ns->ns.inum) && (e)->field)      \
				(e)->known |= flag;                                                \
		}                                                                                  \
	})

/* Ids in the order of an event. On the stack they are aligned for direct reads. */
struct id_set {
	__u32 uid, gid, suid, sgid, euid, egid;
};
#define ID_SET(name) struct id_set name __attribute__((aligned(8))) = {}

static __always_inline long read_ids(struct id_set *to, const struct cred *cred)
{
	/* One read where the members have the order that all kernels so far have. */
	if (OFFSET(struct cred, egid) - OFFSET(struct cred, uid) == 20 &&
	    OFFSET(struct cred, euid) - OFFSET(struct cred, uid) == 16 &&
	    OFFSET(struct cred, suid) - OFFSET(struct cred, uid) == 8)
		return read_kernel(to, sizeof(*to), (void *)cred + OFFSET(struct cred, uid));
	return bpf_core_read(&to->uid, 4, &cred->uid.val) || bpf_core_read(&to->gid, 4, &cred->gid.val) ||
	       bpf_core_read(&to->suid, 4, &cred->suid.val) || bpf_core_read(&to->sgid, 4, &cred->sgid.val) ||
	       bpf_core_read(&to->euid, 4, &cred->euid.val) || bpf_core_read(&to->egid, 4, &cred->egid.val);
}

static __always_inline void fill_credentials(struct event *e, const struct cred *cred)
{
	__u64 span[14];

	if (!cred)
		return;
	if (!read_ids((void *)&e->uid, cred))
		e->known |= KNOWN_IDS;
	if (READ_SPAN(span, cred, cap_inheritable))
		return;
	if (OFFSET(struct cred, cap_ambient) - OFFSET(struct cred, cap_inheritable) == 32 &&
	    OFFSET(struct cred, cap_bset) - OFFSET(struct cred, cap_inheritable) == 24 &&
	    OFFSET(struct cred, cap_effective) - OFFSET(struct cred, cap_inheritable) == 16 &&
	    OFFSET(struct cred, cap_permitted) - OFFSET(struct cred, cap_inheritable) == 8) {
		if (READS_DIRECTLY(sizeof(e->caps)))
			bpf_core_read(e->caps, sizeof(e->caps), &cred->cap_inheritable);
		else
			__builtin_memcpy(e->caps, span, sizeof(e->caps));
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
	FILL_NAMESPACE(e, span, (struct cred *)cred, cap_inheritable, user_ns, userns, KNOWN_USERNS);
}

/* A kernel without CONFIG_AUDIT has neither member; all others have one after the other. */
static __always_inline void fill_login(struct event *e, struct task_struct *task)
{
	if (!bpf_core_field_exists(task->loginuid) || !bpf_core_field_exists(task->sessionid) ||
	    OFFSET(struct task_struct, sessionid) - OFFSET(struct task_struct, loginuid) != 4)
		return;
	if (!read_kernel(&e->login_uid, 8, (void *)task + OFFSET(struct task_struct, loginuid)))
		e->known |= KNOWN_LOGIN;
}

#define NO_NEW_PRIVS 1 /* linux/sched.h: bit PFA_NO_NEW_PRIVS of atomic_flags */

static __always_inline void fill_confinement(struct event *e, struct task_struct *task)
{
	__u64 flags;
	__u32 mode;

	if (bpf_core_field_exists(task->atomic_flags) && !bpf_core_read(&flags, 8, &task->atomic_flags)) {
		e->no_new_privs = flags & NO_NEW_PRIVS;
		e->known |= KNOWN_NO_NEW_PRIVS;
	}
	if (bpf_core_field_exists(task->seccomp.mode) && !bpf_core_read(&mode, 4, &task->seccomp.mode)) {
		e->seccomp = mode;
		e->known |= KNOWN_SECCOMP;
	}
}

/*
 * A task that ends on another CPU gives up its nsproxy, and the kernel frees the memory at once: if
 * the task still has it afterwards, then it was not freed.
 */
static __always_inline void fill_namespaces(struct event *e, struct task_struct *task, struct nsproxy *nsproxy)
{
	struct nsproxy *still = nsproxy;
	__u64 span[8];

	READ_SPAN(span, nsproxy, uts_ns);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, uts_ns, uts, KNOWN_UTS);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, ipc_ns, ipc, KNOWN_IPC);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, mnt_ns, mnt, KNOWN_MNT);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, net_ns, net, KNOWN_NET);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, cgroup_ns, cgroupns, KNOWN_CGROUPNS);
	FILL_NAMESPACE(e, span, nsproxy, uts_ns, time_ns, timens, KNOWN_TIMENS);
	if (task != current_task())
		bpf_core_read(&still, sizeof(still), &task->nsproxy);
	if (still != nsproxy)
		e->known &= ~(KNOWN_UTS | KNOWN_IPC | KNOWN_MNT | KNOWN_NET | KNOWN_CGROUPNS | KNOWN_TIMENS);
}

/* In linux/proc_ns.h. */
#define PROC_PID_INIT_INO 0xEFFFFFFCU

/*
 * The pid namespace comes from the pid itself: nsproxy has the one for future children. A pid has a
 * number in each namespace from the initial one, level 0, down to its own.
 */
static __always_inline void fill_pid_namespace(struct event *e, struct pid *pid)
{
	struct pid_namespace *ns = 0;
	__u32 level = 0;

	if (!pid || !bpf_core_field_exists(pid->numbers[0].ns) || !bpf_core_field_exists(ns->ns.inum) ||
	    bpf_core_read(&level, sizeof(level), &pid->level))
		return;
	if (level) {
		struct upid *own = (void *)pid + OFFSET(struct pid, numbers) +
				   (__u64)level * bpf_core_type_size(struct upid);

		if (bpf_core_read(&e->ns_pid, 4, &own->nr) || bpf_core_read(&ns, sizeof(ns), &own->ns) || !ns ||
		    bpf_core_read(&e->pidns, 4, &ns->ns.inum) || !e->pidns)
			return;
	} else {
		e->ns_pid = e->tgid;
		e->pidns = PROC_PID_INIT_INO;
	}
	e->known |= KNOWN_PIDNS;
}

struct terminal {
	__u32 major, minor;
};

/*
 * Read the controlling terminal; 0:0 means none. Returns 1 if it could be read. It is freed some
 * time after it was taken away from its processes: not if signal still has it afterwards.
 */
static __always_inline int read_tty(struct terminal *t, struct signal_struct *signal)
{
	struct tty_struct *tty = 0, *still = 0;
	struct tty_driver *driver = 0;
	__s32 index = 0, minor_start = 0;

	if (!bpf_core_field_exists(signal->tty) || bpf_core_read(&tty, sizeof(tty), &signal->tty))
		return 0;
	if (!tty)
		return 1;
	bpf_core_read(&driver, sizeof(driver), &tty->driver);
	if (!driver || bpf_core_read(&index, 4, &tty->index) ||
	    bpf_core_read(&minor_start, 4, &driver->minor_start) ||
	    bpf_core_read(&t->major, 4, &driver->major) || !t->major ||
	    bpf_core_read(&still, sizeof(still), &signal->tty) || still != tty)
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
		__u64 pids = OFFSET(struct signal_struct, pids);
		struct pid *pgid, *sid;
		struct two two = {};

		read_two(&two, signal, pids + 8 * bpf_core_enum_value(enum pid_type, PIDTYPE_PGID),
			 pids + 8 * bpf_core_enum_value(enum pid_type, PIDTYPE_SID));
		pgid = (void *)two.first;
		if (pgid && !bpf_core_read(&e->pgid, 4, &pgid->numbers[0].nr))
			e->known |= KNOWN_PGID;
		sid = (void *)two.second;
		if (sid && !bpf_core_read(&e->sid, 4, &sid->numbers[0].nr))
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

/* Set the number of the image that task executes. A child has its creator's number. */
static __always_inline void set_image(struct event *e, struct task_struct *task)
{
	if (bpf_core_field_exists(task->self_exec_id) && !bpf_core_read(&e->image, 2, &task->self_exec_id))
		e->image++;
}

/*
 * Fill e with the state of task. The start time is the group leader's, even if task is another
 * thread: with the pid it identifies the process. All threads have the same parent. cred is NULL
 * for the task's own. It is a function because of its large frame on the stack.
 */
static __noinline void fill_event(struct event *e, enum event_kind kind, struct task_struct *task,
				  const struct cred *cred)
{
	struct task_struct *leader = 0, *parent = 0;
	struct signal_struct *signal = 0;
	struct nsproxy *nsproxy = 0;
	struct pid *pid = 0;

	begin_event(e, kind);
	{
		__u64 span[15];

		READ_SPAN(span, task, pid);
		FROM_SPAN(&e->tgid, span, task, pid, tgid);
		FROM_SPAN(&e->tid, span, task, pid, pid);
		FROM_SPAN(&leader, span, task, pid, group_leader);
		FROM_SPAN(&parent, span, task, pid, real_parent);
		if (leader == task)
			FROM_SPAN(&pid, span, task, pid, thread_pid);
		else
			bpf_core_read(&pid, sizeof(pid), &leader->thread_pid);
	}
	fill_pid_namespace(e, pid);
	set_image(e, task);
	e->start = start_time(leader);
	if (e->start)
		e->known |= KNOWN_START;
	if (parent && !bpf_core_read(&e->ppid, 4, &parent->tgid))
		e->known |= KNOWN_PPID;
	if (kind == EVENT_FORK && parent && !bpf_core_read(&e->parent_tid, 4, &parent->pid))
		e->known |= KNOWN_PARENT_TID;
	if (!bpf_core_read(&e->exit_signal, 4, &leader->exit_signal) && (int)e->exit_signal >= 0)
		e->known |= KNOWN_EXIT_SIGNAL;

	{
		__u64 span[16];

		if (!READ_SPAN(span, task, real_cred)) {
			if (!FROM_SPAN((struct two *)e->comm, span, task, real_cred, comm))
				e->known |= KNOWN_COMM;
			FROM_SPAN(&nsproxy, span, task, real_cred, nsproxy);
			FROM_SPAN(&signal, span, task, real_cred, signal);
			if (!cred)
				FROM_SPAN(&cred, span, task, real_cred, real_cred);
		}
	}
	fill_credentials(e, cred);
	fill_login(e, task);
	fill_confinement(e, task);
	if (nsproxy) /* else the thread has passed exit_task_namespaces() */
		fill_namespaces(e, task, nsproxy);
	if (signal)
		fill_signal(e, signal);
}

#endif
