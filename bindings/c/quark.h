/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libquark reports the processes of a Linux system. The manual pages of section 3 describe each
 * function, quark(7) the events and the members of a process.
 *
 * Returned memory belongs to the library and is valid until the next quark_queue_get_event() or
 * quark_queue_close() of its queue. One thread at a time uses a queue; quark_queue_wake(),
 * quark_queue_get_stats() and quark_queue_close() may be called from any. A child of fork(2) can't
 * use the library.
 *
 * The layout of each structure is the ABI: members are only added, to struct quark_event and
 * struct quark_process at their ends, elsewhere out of what is reserved.
 */
#ifndef QUARK_H
#define QUARK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* quark_queue_attr.flags: the backends, tried in this order, and how events are made. */
#define QQ_EBPF		(1 << 2)
#define QQ_KPROBE	(1 << 1)
#define QQ_CNPROC	(1 << 16)	/* the proc connector */
#define QQ_AUDIT	(1 << 20)	/* the kernel's audit */
#define QQ_ALL_BACKENDS	(QQ_EBPF | QQ_KPROBE | QQ_CNPROC)

#define QQ_THREAD_EVENTS (1 << 0)	/* also what concerns single threads */
#define QQ_MIN_AGG	(1 << 3)	/* FORK, EXEC and EXIT one by one */
#define QQ_ENTRY_LEADER	(1 << 4)	/* is always on */
#define QQ_STRICT	(1 << 24)	/* the first backend or none */
#define QQ_FAILED_EXECS	(1 << 25)	/* also QUARK_EV_EXEC_FAILED */

/* Set by quark_queue_default_attr(). 0 and NULL mean the default. */
struct quark_queue_attr {
	int flags;
	int max_length;		/* raw events that are buffered at most */
	int cache_grace_time;	/* ms that a process is known after its end */
	int hold_time;		/* ms that an event is held, at least 10 */
	const char *filter;	/* expression of quark(7), NULL for all events */
	const char *environ;	/* names of variables, patterns with commas; NULL for none */
	const char *replay;	/* a recording of quark-mon(8) instead of this machine */
	uint64_t reserved[9];	/* 0 */
};

struct quark_queue_state;

/* The caller's memory, which quark_queue_open() sets. Don't copy or move it. */
struct quark_queue {
	struct quark_queue_state *state;
	uint32_t lock;
	uint32_t pad;
	uint64_t reserved[6];
};

struct quark_queue_stats {
	uint64_t insertions;	/* raw events that came in */
	uint64_t removals;	/* raw events that went out */
	uint64_t aggregations;	/* events that were joined of several raw ones */
	uint64_t non_aggregations; /* events of one raw event */
	uint64_t lost;		/* the sum of lost_by */
	int backend;		/* a QQ_ bit, 0 for a replay */

	int pad;
	uint64_t garbage_collections; /* processes forgotten after their grace time */
	uint64_t late;		/* events after a younger one */
	uint64_t filtered;	/* events that the filter left out */
	uint64_t unsure;	/* events that the filter could not decide */
	uint64_t buffered;	/* raw events that wait */
	uint64_t processes;	/* that are known */
	uint64_t produced;	/* by the source: inserted, still queued or lost */
	uint64_t lost_by[16];	/* by QUARK_LOSS_ */
	uint64_t reserved[16];
};

/* Why events were lost. */
#define QUARK_LOSS_RING_FULL	0
#define QUARK_LOSS_SOCKET_FULL	1
#define QUARK_LOSS_SCRATCH	2	/* no memory to build the record in */
#define QUARK_LOSS_SKIPPED	3	/* the kernel did not run the eBPF program */
#define QUARK_LOSS_DECODE	4	/* the record made no sense */
#define QUARK_LOSS_UNSEEN	5	/* not observed, as on a CPU that came online */

/* quark_event.events: what happened. */
#define QUARK_EV_FORK		(1 << 0)
#define QUARK_EV_EXEC		(1 << 1)
#define QUARK_EV_EXIT		(1 << 2)
#define QUARK_EV_ID_CHANGE	(1 << 3)	/* id_change says which */
#define QUARK_EV_SETPROCTITLE	(1 << 4)
#define QUARK_EV_PTRACE		(1 << 10)	/* tracer_pid attached; 0 is a detach */
#define QUARK_EV_CORE_DUMP	(1 << 15)
#define QUARK_EV_GAP		(1 << 16)	/* events were lost: gap_; process is NULL */
#define QUARK_EV_GONE		(1 << 17)	/* the process is gone, and its EXIT was lost */
#define QUARK_EV_EXEC_FAILED	(1 << 18)	/* exec_failed_errno and exec_failed_path */

/* id_change: which ids. */
#define QUARK_ID_SETSID	(1 << 0)
#define QUARK_ID_SETUID	(1 << 1)
#define QUARK_ID_SETGID	(1 << 2)

/* quark_process.flags: groups of members that hold a value. */
#define QUARK_F_PROC		(1 << 0)	/* each member proc_ up to proc_net_inonum */
#define QUARK_F_EXIT		(1 << 1)
#define QUARK_F_COMM		(1 << 2)
#define QUARK_F_FILENAME	(1 << 3)
#define QUARK_F_CMDLINE		(1 << 4)
#define QUARK_F_CWD		(1 << 5)
#define QUARK_F_CGROUP		(1 << 6)

/*
 * The same field by field, for fields_known, fields_cached and fields_truncated: QUARK_F_PROC needs
 * all of proc_, and a backend may know a part. The bit of a field is 1 << its number.
 */
#define QUARK_FIELD(number)	(UINT64_C(1) << (number))
#define QUARK_FIELD_START	QUARK_FIELD(0)	/* proc_time_boot, start_boottime, start_unit */
#define QUARK_FIELD_PPID	QUARK_FIELD(1)
#define QUARK_FIELD_PGID	QUARK_FIELD(2)
#define QUARK_FIELD_SID		QUARK_FIELD(3)
#define QUARK_FIELD_UIDS	QUARK_FIELD(4)	/* proc_uid, proc_euid */
#define QUARK_FIELD_SUID	QUARK_FIELD(5)
#define QUARK_FIELD_GIDS	QUARK_FIELD(6)	/* proc_gid, proc_egid */
#define QUARK_FIELD_SGID	QUARK_FIELD(7)
#define QUARK_FIELD_CAPS	QUARK_FIELD(8)
#define QUARK_FIELD_TTY		QUARK_FIELD(9)
#define QUARK_FIELD_UTS_NS	QUARK_FIELD(10)
#define QUARK_FIELD_IPC_NS	QUARK_FIELD(11)
#define QUARK_FIELD_MNT_NS	QUARK_FIELD(12)
#define QUARK_FIELD_NET_NS	QUARK_FIELD(13)
#define QUARK_FIELD_COMM	QUARK_FIELD(14)
#define QUARK_FIELD_EXE	QUARK_FIELD(15)
#define QUARK_FIELD_ARGS	QUARK_FIELD(16)
#define QUARK_FIELD_CWD		QUARK_FIELD(17)
#define QUARK_FIELD_CGROUP	QUARK_FIELD(18)
#define QUARK_FIELD_EXIT	QUARK_FIELD(19)	/* exit_code, wait_status and times */
#define QUARK_FIELD_PARENT_SIGNAL	QUARK_FIELD(20)
#define QUARK_FIELD_BIRTH_PARENT_TID	QUARK_FIELD(21)
#define QUARK_FIELD_LOGIN	QUARK_FIELD(22)
#define QUARK_FIELD_EXE_FILE	QUARK_FIELD(23)	/* exe_ */
#define QUARK_FIELD_EXEC_PATH	QUARK_FIELD(24)
#define QUARK_FIELD_PID_NS	QUARK_FIELD(25)	/* pid_inonum, ns_pid */
#define QUARK_FIELD_USER_NS	QUARK_FIELD(26)
#define QUARK_FIELD_CGROUP_NS	QUARK_FIELD(27)
#define QUARK_FIELD_TIME_NS	QUARK_FIELD(28)
#define QUARK_FIELD_CPU_TIME	QUARK_FIELD(29)	/* user_time, system_time */
#define QUARK_FIELD_PEAK_RSS	QUARK_FIELD(30)
#define QUARK_FIELD_IO		QUARK_FIELD(31)	/* rchar, wchar, read_bytes, write_bytes */
#define QUARK_FIELD_ENVIRON	QUARK_FIELD(32)
#define QUARK_FIELD_ENTRY_LEADER	QUARK_FIELD(62)	/* proc_entry_leader and its type */
#define QUARK_FIELD_PRIVILEGES	QUARK_FIELD(63)

/* proc_entry_leader_type: by which way a process came in. */
#define QUARK_ELT_UNKNOWN	0
#define QUARK_ELT_INIT		1
#define QUARK_ELT_KTHREAD	2
#define QUARK_ELT_SSHD		3
#define QUARK_ELT_SSM		4
#define QUARK_ELT_CONTAINER	5
#define QUARK_ELT_TERM		6

/* privileges: what the file gave the process at its last EXEC. */
#define QUARK_PRIV_SET_UID	(1 << 0)
#define QUARK_PRIV_SET_GID	(1 << 1)
#define QUARK_PRIV_FILE_CAPS	(1 << 2)

/* The value of login_uid and login_session of a process that no login has led to. */
#define QUARK_LOGIN_UNSET	UINT32_MAX

/* The value of cpu and gap_cpu where it can be any. */
#define QUARK_ALL_CPUS		UINT32_MAX

/* A member is 0, NULL or "" while it is unknown. Times are ns since 1970 unless they say else. */
struct quark_process {
	/* Always there. */
	uint32_t pid;
	uint64_t flags;			/* QUARK_F_ */

	/* QUARK_F_PROC */
	uint64_t proc_cap_inheritable;
	uint64_t proc_cap_permitted;
	uint64_t proc_cap_effective;
	uint64_t proc_cap_bset;
	uint64_t proc_cap_ambient;
	uint64_t proc_time_boot;	/* when it started */
	uint32_t proc_ppid;
	uint32_t proc_uid;
	uint32_t proc_gid;
	uint32_t proc_suid;
	uint32_t proc_sgid;
	uint32_t proc_euid;
	uint32_t proc_egid;
	uint32_t proc_pgid;
	uint32_t proc_sid;
	uint32_t proc_tty_major;
	uint32_t proc_tty_minor;
	uint32_t proc_entry_leader_type; /* QUARK_ELT_, with QUARK_FIELD_ENTRY_LEADER */
	uint32_t proc_entry_leader;	/* its pid */
	uint32_t proc_uts_inonum;
	uint32_t proc_ipc_inonum;
	uint32_t proc_mnt_inonum;
	uint32_t proc_net_inonum;
	/* QUARK_F_EXIT */
	int32_t exit_code;		/* 0 for an end by a signal: see wait_status */
	uint64_t exit_time_event;
	/* QUARK_F_COMM */
	char comm[16];
	/* QUARK_F_FILENAME */
	const char *filename;
	/* QUARK_F_CMDLINE */
	size_t cmdline_len;		/* with the NUL after each argument */
	const char *cmdline;
	/* QUARK_F_CWD */
	const char *cwd;
	/* QUARK_F_CGROUP */
	const char *cgroup;

	/* QUARK_F_ of the groups with a field that is cached (of earlier), or that is cut. */
	uint64_t flags_cached;
	uint64_t flags_truncated;
	uint64_t fields_known;		/* QUARK_FIELD_ */
	uint64_t fields_cached;
	uint64_t fields_truncated;

	uint64_t as_of;			/* the time that all this is of, CLOCK_MONOTONIC ns */
	uint64_t start_boottime;	/* CLOCK_BOOTTIME ns */
	uint64_t start_unit;		/* what that is a multiple of: 1, or 10 ms from /proc */
	uint64_t exit_time;		/* CLOCK_MONOTONIC ns */
	int32_t wait_status;		/* as wait(2) has it: use WIFSIGNALED() and its like */
	uint8_t exited;			/* the end was reported */
	uint8_t inferred;		/* and was found out later, as its EXIT was lost */
	uint8_t privileges;		/* QUARK_PRIV_ */
	uint8_t exe_removed;		/* the file has no name */

	/* Who made it: birth_parent_pid and birth_parent_start are 0 if unknown, and constant. */
	uint64_t birth_parent_start;		/* CLOCK_BOOTTIME ns */
	uint32_t birth_parent_pid;
	uint32_t birth_parent_tid;		/* QUARK_FIELD_BIRTH_PARENT_TID */
	uint64_t entry_leader_start;	/* CLOCK_BOOTTIME ns; QUARK_FIELD_ENTRY_LEADER */
	uint32_t parent_signal;		/* that the parent gets at its end */
	uint32_t ns_pid;		/* its pid in its own pid namespace */
	uint32_t pid_inonum;
	uint32_t user_inonum;
	uint32_t cgroup_inonum;
	uint32_t time_inonum;
	uint32_t login_uid;
	uint32_t login_session;

	/* QUARK_FIELD_EXE_FILE: what stat(2) says of the file. */
	uint64_t exe_inode;
	int64_t exe_ctime;
	uint32_t exe_dev_major;
	uint32_t exe_dev_minor;
	uint32_t exe_uid;
	uint32_t exe_gid;
	uint32_t exe_mode;
	uint32_t pad;

	/* Usage: in its EXIT alone. */
	uint64_t user_time;		/* ns */
	uint64_t system_time;
	uint64_t peak_rss;		/* bytes */
	uint64_t rchar;
	uint64_t wchar;
	uint64_t read_bytes;
	uint64_t write_bytes;

	const char *exec_path;		/* what execve(2) was asked for */
	size_t environ_len;
	const char *environ;		/* NAME=value, a NUL after each */
};

/* One of the raw events that were joined. */
struct quark_part {
	uint64_t time;			/* CLOCK_MONOTONIC ns */
	uint32_t event;			/* a QUARK_EV_ bit */
	uint32_t id_change;
	uint32_t cpu;
	/* The ids right after it; for an EXEC those that the image began with. */
	uint32_t uid, euid, suid;
	uint32_t gid, egid, sgid;
	uint32_t pad;
	uint64_t fields_known;		/* which of them hold a value: QUARK_FIELD_ */
	uint64_t fields_cached;
};

struct quark_event {
	uint64_t events;		/* QUARK_EV_ */
	const struct quark_process *process;

	uint64_t time;			/* of the first raw event */
	uint64_t time_monotonic;	/* the same in CLOCK_MONOTONIC ns */
	uint32_t id_change;		/* QUARK_ID_ */
	uint32_t cpu;
	uint32_t tid;			/* that it came from, or that it is about */
	uint32_t thread;		/* 1: of one thread alone, with QQ_THREAD_EVENTS */
	uint32_t tracer_pid;
	uint32_t tracer_tid;
	uint32_t exec_failed_errno;		/* 0 is unknown */
	uint8_t exec_failed_path_cached;
	uint8_t exec_failed_path_truncated;
	uint8_t pad[2];
	const char *exec_failed_path;	/* NULL is unknown */

	uint64_t gap_from;		/* CLOCK_MONOTONIC ns */
	uint64_t gap_to;
	uint64_t gap_count;		/* lost at least; 0: not counted */
	uint32_t gap_cause;		/* QUARK_LOSS_ */
	uint32_t gap_cpu;

	size_t nparts;
	const struct quark_part *parts;

	struct quark_queue *queue;	/* its queue, for quark_event_dump() */
	uint64_t serial;
};

/* quark_queue_open(3): 0, or -1 with errno and quark_last_error(). */
void quark_queue_default_attr(struct quark_queue_attr *attr);
int quark_queue_open(struct quark_queue *qq, const struct quark_queue_attr *attr);
void quark_queue_close(struct quark_queue *qq);
const char *quark_queue_backend(struct quark_queue *qq);

/*
 * quark_queue_get_event(3): NULL with errno EAGAIN while there is none, and ENODATA after the end
 * of a replay.
 */
const struct quark_event *quark_queue_get_event(struct quark_queue *qq);

/* quark_queue_block(3) */
int quark_queue_block(struct quark_queue *qq);
int quark_queue_block_for(struct quark_queue *qq, int timeout_ms);
int quark_queue_wake(struct quark_queue *qq);
int quark_queue_get_epollfd(struct quark_queue *qq);

/* quark_queue_get_stats(3) */
int quark_queue_get_stats(struct quark_queue *qq, struct quark_queue_stats *stats);

/* quark_process_lookup(3): NULL with errno ESRCH if it is not known. */
const struct quark_process *quark_process_lookup(struct quark_queue *qq, int pid);

struct quark_process_iter {
	struct quark_queue *queue;
	const struct quark_process *processes;
	uint64_t count;
	uint64_t next;
	uint64_t serial;
	uint64_t reserved[3];
};
void quark_process_iter_init(struct quark_process_iter *iter, struct quark_queue *qq);
const struct quark_process *quark_process_iter_next(struct quark_process_iter *iter);

struct quark_cmdline_iter {
	const char *next;
	const char *end;
};
void quark_cmdline_iter_init(struct quark_cmdline_iter *iter, const char *cmdline, size_t len);
const char *quark_cmdline_iter_next(struct quark_cmdline_iter *iter);

/* quark_event_dump(3) */
int quark_event_dump(const struct quark_event *event, FILE *file);
const char *quark_event_json(const struct quark_event *event);

/* quark_last_error(3): what went wrong in the last call of this thread that failed. */
const char *quark_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
