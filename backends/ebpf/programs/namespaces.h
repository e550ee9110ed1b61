/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Changes of namespaces by setns(2) and unshare(2). The kernel switches the user namespace in
 * commit_creds and all others in switch_task_namespaces, so one call can cause two events.
 */
#ifndef QUARK_NAMESPACES_H
#define QUARK_NAMESPACES_H

/* Where the pointer is NULL, as in a kernel without that kind of namespace, the number is 0. */
#define READ_NAMESPACE(to, base, member)                                   \
	({                                                                 \
		if (bpf_core_field_exists((base)->member) &&               \
		    bpf_core_field_exists((base)->member->ns.inum)) {      \
			typeof((base)->member) ns = 0;                     \
			bpf_core_read(&ns, sizeof(ns), &(base)->member);   \
			bpf_core_read(&(to), sizeof(to), &ns->ns.inum);    \
		}                                                          \
	})

static __always_inline void read_namespaces(struct namespaces *to, struct nsproxy *nsproxy)
{
	READ_NAMESPACE(to->of[NS_UTS], nsproxy, uts_ns);
	READ_NAMESPACE(to->of[NS_IPC], nsproxy, ipc_ns);
	READ_NAMESPACE(to->of[NS_MNT], nsproxy, mnt_ns);
	READ_NAMESPACE(to->of[NS_NET], nsproxy, net_ns);
	READ_NAMESPACE(to->of[NS_PID], nsproxy, pid_ns_for_children);
	READ_NAMESPACE(to->of[NS_CGROUP], nsproxy, cgroup_ns);
	READ_NAMESPACE(to->of[NS_TIME], nsproxy, time_ns);
}

/*
 * Return the namespaces that changed, as bits. Without branches: the verifier would check all that
 * follows for each combination.
 */
static __always_inline __u64 changed_namespaces(const struct namespaces *old, const struct namespaces *now)
{
	__u64 changed = 0;

	for (int i = 0; i < NS_KINDS; i++) {
		__u64 differs = old->of[i] ^ now->of[i];

		differs |= -differs;
		barrier_var(differs);
		changed |= differs >> 63 << i;
	}
	return changed;
}

static __noinline void fill_changes(struct ns_event *x, const struct namespaces *old, const struct namespaces *now)
{
	x->old = *old;
	x->now = *now;
	x->changed = changed_namespaces(old, now);
}

/* Report how namespaces of the current task changed. cred is NULL if the task has its credentials
 * already. */
static __noinline int report_namespaces(void *ctx, const struct cred *cred, const struct namespaces *old,
					     const struct namespaces *now)
{
	struct task_struct *task = current_task();
	int thread = is_thread(task);
	struct ns_event *x;

	if (!changed_namespaces(old, now) || (thread && !want_threads))
		return 0;
	x = RESERVE(EVENT_NS_CHANGE, struct ns_event);
	if (!x)
		return 0;
	fill_event(&x->event, EVENT_NS_CHANGE, task, cred);
	x->event.thread = thread;
	fill_changes(x, old, now);
	submit_event(ctx, &x->event, sizeof(*x));
	return 0;
}

static __always_inline int change_user_namespace(void *ctx, const struct cred *old, const struct cred *new)
{
	struct namespaces was = {}, now = {};

	READ_NAMESPACE(was.of[NS_USER], (struct cred *)old, user_ns);
	READ_NAMESPACE(now.of[NS_USER], (struct cred *)new, user_ns);
	return report_namespaces(ctx, new, &was, &now);
}

/* For kernels without kprobes: the namespaces at the entry of the calls in progress, by task. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, __u64);
	__type(value, struct namespaces);
} ns_calls SEC(".maps");

static __always_inline void read_own(struct namespaces *to)
{
	struct task_struct *task = current_task();
	struct nsproxy *nsproxy = 0;
	struct cred *cred = 0;

	bpf_core_read(&nsproxy, sizeof(nsproxy), &task->nsproxy);
	bpf_core_read(&cred, sizeof(cred), &task->real_cred);
	read_namespaces(to, nsproxy);
	READ_NAMESPACE(to->of[NS_USER], cred, user_ns);
}

static __always_inline int enter_namespaces(void)
{
	__u64 key = (__u64)current_task();
	struct namespaces was = {};

	read_own(&was);
	bpf_map_update_elem(&ns_calls, &key, &was, BPF_ANY);
	return PASS_ON;
}

/* Report the changes of a call as the kernel makes them: setns enters the user namespace first. */
static __always_inline int leave_namespaces(void *ctx, long result, int setns)
{
	__u64 key = (__u64)current_task();
	struct namespaces was = {}, now = {}, user_was = {}, user = {};
	struct namespaces *call = bpf_map_lookup_elem(&ns_calls, &key);

	if (call) {
		was = *call;
		bpf_map_delete_elem(&ns_calls, &key);
	}
	if (result)
		return PASS_ON;
	if (!call) {
		COUNT(EVENT_NS_CHANGE, produced);
		COUNT(EVENT_NS_CHANGE, no_slot);
		return PASS_ON;
	}
	read_own(&now);
	user_was.of[NS_USER] = was.of[NS_USER];
	user.of[NS_USER] = now.of[NS_USER];
	was.of[NS_USER] = now.of[NS_USER] = 0;
	if (setns)
		report_namespaces(ctx, 0, &user_was, &user);
	report_namespaces(ctx, 0, &was, &now);
	if (!setns)
		report_namespaces(ctx, 0, &user_was, &user);
	return PASS_ON;
}

#endif
