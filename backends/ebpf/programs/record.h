/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the programs send. bpf2go makes the Go types from these. No padding is
 * left to the compiler, as ring memory is not zeroed.
 */
#ifndef QUARK_RECORD_H
#define QUARK_RECORD_H

enum event_kind { EVENT_FORK, EVENT_EXEC, EVENT_EXIT, EVENT_ID_CHANGE, EVENT_COMM, EVENT_KINDS };

/* Bits of event.known: which members hold a value. */
enum event_known {
	KNOWN_START = 1 << 0,
	KNOWN_PPID = 1 << 1,
	KNOWN_PGID = 1 << 2,
	KNOWN_SID = 1 << 3,
	KNOWN_IDS = 1 << 4,
	KNOWN_CAPS = 1 << 5,
	KNOWN_TTY = 1 << 6,
	KNOWN_UTS = 1 << 7,
	KNOWN_IPC = 1 << 8,
	KNOWN_MNT = 1 << 9,
	KNOWN_NET = 1 << 10,
	KNOWN_COMM = 1 << 11,
	KNOWN_WAIT = 1 << 12,
};

/* Bits of event.ids: which ids an EVENT_ID_CHANGE is about. */
enum event_ids { IDS_SID = 1 << 0, IDS_UID = 1 << 1, IDS_GID = 1 << 2 };

struct event {
	__u64 time;		/* CLOCK_MONOTONIC ns */
	__u64 start;		/* CLOCK_BOOTTIME ns, of the group's leader */
	__u64 caps[5];		/* inheritable, permitted, effective, bounding, ambient */
	enum event_kind kind;
	enum event_known known;
	enum event_ids ids;
	__u32 thread;		/* about one thread, not about its group */
	__u32 cpu;
	__u32 tgid, tid;
	__u32 creator;		/* fork: tgid of the process that called it */
	__u32 ppid, pgid, sid;
	__u32 uid, gid, suid, sgid, euid, egid;	/* in struct cred's order */
	__u32 tty_major, tty_minor;
	__u32 uts, ipc, mnt, net;
	__s32 wait_status;
	char comm[16];
};

/* How text.len bytes are to be understood. */
enum text_form {
	TEXT_UNKNOWN,	/* not known; len is 0 */
	TEXT_BYTES,	/* as they are */
	TEXT_BYTES_CUT,	/* as they are, the end is missing */
	TEXT_PATH,	/* NUL-terminated components, from the leaf to the root */
	TEXT_PATH_CUT,	/* the same, but the root was not reached */
};

struct text {
	__u32 len;
	enum text_form form;
};

#define ARGV_MAX 20480
#define PATH_MAX 4096
#define NAME_MAX 256	/* with its NUL */
#define DATA_MASK 0x7fff
_Static_assert(ARGV_MAX + 3 * PATH_MAX == DATA_MASK + 1, "all texts fit below the mask");

/* A fork or an exec: the texts follow each other in data, in this order. */
struct text_event {
	struct event event;
	struct text argv, filename, cwd, cgroup;
	char data[DATA_MASK + 1 + NAME_MAX];
};

/* One CPU's counters. */
struct tally {
	__u64 produced;		/* events that were to be sent, the lost ones too */
	__u64 ring_full;	/* of these: no room in the ring */
	__u64 no_slot;		/* of these: no scratch slot */
	__u64 passed;		/* times that a first program left one to its twin */
	__u64 rescued;		/* times that a twin had to take one */
};
struct tallies {
	struct tally kind[EVENT_KINDS];
	__u64 pad[7]; /* to four cache lines */
};

#endif
