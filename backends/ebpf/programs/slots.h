/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The counters of events, and the slots in which records of variable length are built; where they
 * go through perf buffers, all records.
 */
#ifndef QUARK_SLOTS_H
#define QUARK_SLOTS_H

/*
 * The counters, indexed by CPU. It is not a per-CPU array, as that cannot be mapped: user space
 * reads the counters through shared memory, as before 6.0 bpf(2) refuses a process that has dropped
 * its privileges.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* possible CPUs, set at load */
	__type(key, __u32);
	__type(value, struct tallies);
} counters SEC(".maps");

/*
 * A bound of a loop. Where records go through perf buffers user space can lower it: kernels that
 * have no ring may have a verifier that checks a function once for each call of it.
 */
#ifdef PERF_BUFFER
#define LIMIT(name, n) const volatile __u32 name = n
#else
#define LIMIT(name, n) enum { name = n }
#endif

#define SEEN_MASK 511 /* at most two for each step of a walk */

/*
 * Slots are a pool, not per-CPU memory: raw tracepoints are preemptible on PREEMPT_RT and from 7.0
 * on, so that two tasks can build events on one CPU at the same time. free_slots holds the indexes
 * of the unused slots.
 */
struct slot {
	__u32 used; /* bytes of record.data */
	__u32 notes; /* how many of seen are of this walk */
	__u64 dentry, mnt, mnt_root, node; /* where a walk continues, see text.h */
	struct seen {
		__u64 at, value;
	} seen[SEEN_MASK + 1]; /* values that a walk depends on, see text.h */
	__s32 form; __u32 pad;
	__u64 belongings[14]; /* of a task, see snapshot.h */
#ifdef PERF_BUFFER
	__u32 index;
	__u32 length; /* of record, which follows: perf adds up to 7 bytes */
#endif
	struct text_event record;
};

/*
 * A value that goes through a slot's memory, where the verifier does not track it. Otherwise it
 * checks the code after a call separately for each value that the function can return.
 */
#ifdef PERF_BUFFER
#define FORGOTTEN(s, value) (*(volatile __s32 *)&(s)->form = (value), *(volatile __s32 *)&(s)->form)
#else
#define FORGOTTEN(s, value) (value)
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set at load */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1); /* as many as slots */
	__uint(value_size, sizeof(__u32));
} free_slots SEC(".maps");

/* 1: report the environment of each exec. */
const volatile __u8 want_environ = 0;

/* Written by user space through shared memory, or bpf(2) where there is none. */
volatile __u32 armed;	/* 1: the reader waits for the next record */
/* For the ring of ring.h alone: */
volatile __u32 nudged;	/* 1: the reader has been woken because the ring fills up */
const volatile __u64 wake_level = 1024; /* bytes queued that wake an unarmed reader */

/* Atomic: the task can be preempted by another one that counts on the same CPU. */
#define COUNT(of, member)                                                 \
	({                                                                \
		__u32 cpu = bpf_get_smp_processor_id();                   \
		struct tallies *t = bpf_map_lookup_elem(&counters, &cpu); \
		if (t)                                                    \
			__sync_fetch_and_add(&t->kind[of].member, 1);     \
	})

/* A kind of event with bounds that the verifier sees. */
#define BOUNDED(kind) ((kind) & 15)
_Static_assert(EVENT_KINDS <= 16, "BOUNDED keeps all kinds");

/*
 * Take a slot from the pool for an event with texts. The caller gives it back with put_slot on
 * every path.
 */
static __always_inline struct slot *take_slot(enum event_kind kind, __u32 *index)
{
	struct slot *s;

	COUNT(BOUNDED(kind), produced);
	if (bpf_map_pop_elem(&free_slots, index)) {
		COUNT(BOUNDED(kind), no_slot);
		return 0;
	}
	s = bpf_map_lookup_elem(&slots, index);
	if (s) {
		s->used = 0;
		s->record.executable.mode = 0;
	}
	return s;
}

static __always_inline void put_slot(__u32 index)
{
	bpf_map_push_elem(&free_slots, &index, BPF_ANY);
}

static __always_inline __u64 record_size(struct slot *s)
{
	__u64 len;

	if (s->record.event.thread)
		return sizeof(struct event);
	len = s->used;
	if (len > DATA_MASK + 1 + (want_environ ? ENVIRON_MAX : 0))
		len = DATA_MASK + 1;
	return len + __builtin_offsetof(struct text_event, data);
}

#endif
