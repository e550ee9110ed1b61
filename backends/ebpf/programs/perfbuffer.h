/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The way to user space for kernels without the ring of ring.h: perf's rings, one for each CPU,
 * which the helper perf_event_output writes to. It copies, so that each record is built in a slot,
 * and it needs the context of the program.
 */
#ifndef QUARK_PERFBUFFER_H
#define QUARK_PERFBUFFER_H

/*
 * By CPU: the events that write to its ring. A record of an event of the second map wakes the
 * reader, one of the first does so only when the ring fills up.
 */
#define EVENTS(name)                                 \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); \
		__uint(key_size, sizeof(__u32));     \
		__uint(value_size, sizeof(__u32));   \
	} name SEC(".maps")

EVENTS(ring); /* there are as many as possible CPUs */
EVENTS(waking);

/*
 * Write to the ring of this CPU. Returns 0, or an error: ENOSPC if there is no room, EBUSY if the
 * kernel has no memory for one more sample on this CPU, others if the CPU has no ring.
 */
static __always_inline int output(void *ctx, int wake, void *data, __u64 size)
{
	if (wake)
		return bpf_perf_event_output(ctx, &waking, BPF_F_CURRENT_CPU, data, size);
	return bpf_perf_event_output(ctx, &ring, BPF_F_CURRENT_CPU, data, size);
}

/* size is the record's size. */
static __always_inline void send_sized(void *ctx, struct slot *s, enum event_kind kind, __u64 size)
{
	int wake = armed != 0, err;

	s->length = size;
	if (wake)
		armed = 0;
	err = output(ctx, wake, &s->length, sizeof(s->length) + size);
	if (err) {
		if (wake)
			armed = 1;
		if (err == -ENOSPC)
			COUNT(BOUNDED(kind), ring_full);
		else if (err == -EBUSY)
			COUNT(BOUNDED(kind), no_slot);
		else
			COUNT(NO_RING, ring_full);
		return;
	}
	/* The reader may have set armed and found the ring empty before the output above. */
	if (!wake && armed) {
		armed = 0;
		s->length = 0; /* a record that the reader passes over */
		output(ctx, 1, &s->length, sizeof(s->length));
	}
}

static __always_inline void send_slot(void *ctx, struct slot *s, enum event_kind kind)
{
	send_sized(ctx, s, kind, record_size(s));
}

/* Take memory for a record without texts. The caller passes it to submit_event. */
#define RESERVE(kind, type)                         \
	({                                          \
		__u32 index = 0;                    \
		struct slot *s = take_slot(kind, &index); \
		type *e = 0;                        \
		if (s) {                            \
			s->index = index;           \
			e = (void *)&s->record;     \
		}                                   \
		e;                                  \
	})

static __always_inline struct event *reserve_event(enum event_kind kind)
{
	return RESERVE(kind, struct event);
}

static __always_inline void submit_event(void *ctx, struct event *e, __u64 size)
{
	struct slot *s = (void *)e - __builtin_offsetof(struct slot, record);

	send_sized(ctx, s, e->kind, size);
	put_slot(s->index);
}

/*
 * A function that has no context and makes a record ends by RETURN_SLOT, and its caller, which may
 * send it, by SEND_RETURNED.
 */
#define RETURN_SLOT(s, index, kind) return (index) + 1
#define SEND_RETURNED(ctx, returned) send_returned(ctx, returned)

static __always_inline int send_returned(void *ctx, __u32 returned)
{
	__u32 index = returned - 1;
	struct slot *s;

	if (!returned)
		return 0;
	s = bpf_map_lookup_elem(&slots, &index);
	if (!s)
		return 0;
	send_slot(ctx, s, s->record.event.kind);
	put_slot(index);
	return 0;
}

#endif
