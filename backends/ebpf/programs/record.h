/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The records that the programs write to the ring. bpf2go generates the Go types from these. The
 * structs have no implicit padding, because the memory of the ring is not zeroed.
 */
#ifndef QUARK_RECORD_H
#define QUARK_RECORD_H

enum event_kind {
	EVENT_FORK, EVENT_EXEC, EVENT_EXIT, EVENT_ID_CHANGE, EVENT_COMM, EVENT_PTRACE, EVENT_EXEC_FAILED,
	EVENT_CGROUP_CHANGE, EVENT_NS_CHANGE, EVENT_KINDS
};

/* Bits of event.known: the members that have a value. */
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
	KNOWN_EXIT_SIGNAL = 1 << 11,
	KNOWN_LOGIN = 1 << 12,
	KNOWN_PIDNS = 1 << 13,	/* with ns_pid */
	KNOWN_USERNS = 1 << 14,
	KNOWN_CGROUPNS = 1 << 15,
	KNOWN_TIMENS = 1 << 16,
	KNOWN_NO_NEW_PRIVS = 1 << 17,
	KNOWN_SECCOMP = 1 << 18,
	KNOWN_COMM = 1 << 19,
	KNOWN_WAIT = 1 << 20,
	KNOWN_PARENT_TID = 1 << 21,
	KNOWN_CPU_TIME = 1 << 22,
	KNOWN_PEAK_RSS = 1 << 23,
	KNOWN_IO = 1 << 24,
	KNOWN_ENVIRON = 1 << 25, /* the rest of data */
	KNOWN_ENVIRON_CUT = 1 << 26, /* its end is missing */
	KNOWN_STDIO = 1 << 27,
};

/* Bits of event.ids: the ids that an EVENT_ID_CHANGE reports. */
enum event_ids { IDS_SID = 1 << 0, IDS_UID = 1 << 1, IDS_GID = 1 << 2, IDS_PGID = 1 << 3 };

struct event {
	__u64 time;		/* CLOCK_MONOTONIC ns */
	__u64 start;		/* CLOCK_BOOTTIME ns at which the group's leader was created */
	__u64 caps[5];		/* inheritable, permitted, effective, bounding, ambient */
	enum event_kind kind;
	enum event_known known;
	enum event_ids ids;
	__u16 thread;		/* 1: the event is of one thread, not of its group */
	__u16 image;		/* 1 + task->self_exec_id, which each exec increments; 0: unknown */
	__u32 cpu;
	__u32 tgid, tid;
	/* fork: tgid of the caller. Change of cgroup: who wrote to cgroup.procs. Exit: the next
	 * parent of the children, UNKNOWN_REAPER, or 0 for no children. */
	__u32 creator;
	__u32 parent_tid;	/* fork: the thread of the parent */
	/* ptrace: tgid and thread of the tracer, 0 for none. Failed exec: the descriptor that its
	 * path is relative to; 1 if another task may have written to the path. */
	__u32 tracer, tracer_tid;
	__u32 ppid, pgid, sid;
	__u32 uid, gid, suid, sgid, euid, egid;	/* in struct cred's order */
	__u32 tty_major, tty_minor;
	__u32 uts, ipc, mnt, net, pidns, userns, cgroupns, timens;
	__u32 ns_pid;		/* the process's pid in its own pid namespace */
	__u32 login_uid, audit_session;
	__u32 exit_signal;
	__s32 wait_status;	/* failed exec: its result, -errno */
	__u16 no_new_privs;	/* 0 or 1 */
	__u16 seccomp;		/* the mode */
	char comm[16];
};

/* What a thread group has used. Pairs are read as one where the kernel has them side by side. */
struct usage {
	__u64 run;		/* ns that its threads ran, as the scheduler has accounted it */
	__u64 utime, stime;	/* ns in user mode and in the kernel, mostly in whole ticks */
	__u64 shown_utime, shown_stime; /* times last shown for the group, see package cputime */
	__u64 peak_rss;		/* pages */
	__u64 rchar, wchar, read_bytes, write_bytes; /* as in /proc/PID/io */
};

/* An exit. */
struct exit_event {
	struct event event;
	struct usage usage;	/* known if it is of a group */
};

/* The kinds of namespace, in the order of engine.Namespaces. PID is the one of future children. */
enum namespace { NS_UTS, NS_IPC, NS_MNT, NS_NET, NS_PID, NS_USER, NS_CGROUP, NS_TIME, NS_KINDS };

/* The inode numbers of namespaces, 0 where the kernel has no such namespaces. */
struct namespaces {
	__u32 of[NS_KINDS];
};

/* A change of namespaces. */
struct ns_event {
	struct event event;
	struct namespaces old, now;
	__u64 changed;		/* bits by enum namespace */
};

/* The meaning of the text.len bytes of a text. */
enum text_form {
	TEXT_UNKNOWN,	/* unknown; len is 0 */
	TEXT_BYTES,	/* the value */
	TEXT_BYTES_CUT,	/* the value without its end */
	TEXT_PATH,	/* NUL-terminated components, from the leaf to the root */
	TEXT_PATH_CUT,	/* the same, without the components next to the root */
};

struct text {
	__u32 len;
	enum text_form form;
};

/* The file of an image, as stat(2) has it. */
struct executable {
	__u64 inode;
	__s64 ctime_sec;
	__u32 ctime_nsec;
	__u32 device;	/* as the kernel has it: 12 bits of major, 20 of minor */
	__u32 uid, gid;
	__u32 links;
	__u16 mode;	/* 0: the file is unknown, as at a fork */
	__u16 opened;	/* 1: the next two are known */
	/* The effective ids of who opened the file: of the task, before its exec changed them. */
	__u32 euid, egid;
};

/* A standard stream, as fstat(2) has it. */
struct stream {
	__u64 inode;
	__u32 device, rdev;	/* as in struct executable */
	__u32 magic;		/* of the file system; 0 of pipes and character devices */
	__u16 mode;		/* 0: the descriptor is closed */
	/* The address family of a socket; for a file in memory 1 if it never was in a directory. */
	__u16 detail;
};
#define STREAMS 3

#define ARGV_MAX 20480
#define ENVIRON_MAX 20480
#define PATH_MAX 4096
#define NAME_MAX 256	/* with its NUL */
#define DATA_MASK 0x7fff
_Static_assert(ARGV_MAX + 3 * PATH_MAX == DATA_MASK + 1, "all texts fit below the mask");

/*
 * A fork, an exec, a failed exec or a change of cgroup. The filename of a failed one is the
 * requested path. data holds the texts one after the other, in this order. With KNOWN_STDIO the
 * streams follow, at a multiple of 8 bytes.
 */
struct text_event {
	struct event event;
	struct text argv, filename, cwd, cgroup, asked;
	struct executable executable;
	struct stream stdio[0]; /* so that Go has the type */
	/* If the environment is not wanted the end is cut off at load. */
	char data[DATA_MASK + 1 + ENVIRON_MAX];
};

/* The counters of one CPU for one kind of event. */
struct tally {
	__u64 produced;		/* events to be sent, including those then lost */
	__u64 ring_full;	/* of these, lost: no room in the ring */
	__u64 no_slot;		/* of these, lost: no free slot */
	__u64 passed;		/* events that a first program left to its twin */
	__u64 rescued;		/* events that a twin handled */
};
#define NO_RING 15 /* of its members ring_full counts events of any kind on CPUs without a ring */
struct tallies {
	struct tally kind[16]; /* by enum event_kind; fills ten cache lines */
};
_Static_assert(EVENT_KINDS <= NO_RING, "no kind has this number");

#endif
