/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The ring to user space and its wake-ups. perfbuffer.h has the same for kernels without it.
 */
#ifndef QUARK_RING_H
#define QUARK_RING_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set at load */
} ring SEC(".maps");

static __always_inline __u64 wakeup(void)
{
	if (armed) {
		armed = 0;
		return BPF_RB_FORCE_WAKEUP;
	}
	if (!nudged && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > wake_level) {
		nudged = 1;
		return BPF_RB_FORCE_WAKEUP;
	}
	return BPF_RB_NO_WAKEUP;
}

/* Reserve a record without texts. The caller passes it to submit_event. */
#define RESERVE(kind, type)                                        \
	({                                                         \
		type *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0); \
		COUNT(kind, produced);                             \
		if (!e)                                            \
			COUNT(kind, ring_full);                    \
		e;                                                 \
	})

static __always_inline struct event *reserve_event(enum event_kind kind)
{
	return RESERVE(kind, struct event);
}

static __always_inline void submit_event(void *ctx, struct event *e, __u64 size)
{
	bpf_ringbuf_submit(e, wakeup());
}

static __always_inline void send_slot(void *ctx, struct slot *s, enum event_kind kind)
{
	__u64 flags = wakeup(), len = record_size(s);

	if (bpf_ringbuf_output(&ring, &s->record, len, flags)) {
		COUNT(BOUNDED(kind), ring_full);
		if (flags == BPF_RB_FORCE_WAKEUP)
			armed = 1;
		return;
	}
	/*
	 * The reader may have set armed and found the ring empty between wakeup() and the output
	 * above. Records of reserve_event are in the ring before wakeup() runs.
	 */
	if (flags != BPF_RB_FORCE_WAKEUP && armed) {
		void *nothing = bpf_ringbuf_reserve(&ring, 8, 0);

		if (nothing) {
			armed = 0;
			bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
		}
	}
}

/*
 * A function that has no context and makes a record ends by RETURN_SLOT, and its caller, as with
 * perf buffers, by SEND_RETURNED.
 */
#define RETURN_SLOT(s, index, kind)         \
	do {                                \
		send_slot(0, s, kind);      \
		put_slot(index);            \
		return 0;                   \
	} while (0)
#define SEND_RETURNED(ctx, returned) (returned)

#endif
