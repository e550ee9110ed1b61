/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The parts of the kernel's types that the programs of quark and exitsnoop read. Only names and
 * nesting matter: CO-RE sets the offsets of the running kernel at load time. A name with three
 * underscores is a CO-RE flavour: the type named before them, as another kernel defines it.
 */
#ifndef QUARK_KERNEL_H
#define QUARK_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* From linux/bpf.h and asm-generic/errno-base.h, which are ABI. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_MMAPABLE = 1 << 10 };
#define BPF_F_CURRENT_CPU 0xffffffffULL
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum { ENOENT = 2, EBUSY = 16, EEXIST = 17, ENOSPC = 28 };

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};
struct bpf_pidns_info {
	__u32 pid, tgid;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;
typedef struct { __u32 val; } kuid_t;
typedef struct { __u32 val; } kgid_t;

/* {u32 cap[2]} before 6.3, {u64 val} since then: the same 8 bytes on little endian. */
typedef struct { __u64 val; } kernel_cap_t;

struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t suid;
	kgid_t sgid;
	kuid_t euid;
	kgid_t egid;
	kernel_cap_t cap_inheritable, cap_permitted, cap_effective, cap_bset, cap_ambient;
	struct user_namespace *user_ns;
};

struct ns_common { unsigned int inum; };
struct user_namespace { struct ns_common ns; };
struct cgroup_namespace { struct ns_common ns; };
struct time_namespace { struct ns_common ns; };
struct uts_namespace { struct ns_common ns; };
struct ipc_namespace { struct ns_common ns; };
struct mnt_namespace { struct ns_common ns; };
struct net { struct ns_common ns; };
struct task_struct;
struct pid_namespace {
	struct ns_common ns;
	struct task_struct *child_reaper; /* process 1 */
	int reboot;
};
struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct pid_namespace *pid_ns_for_children;
	struct net *net_ns;
	struct time_namespace *time_ns;
	struct cgroup_namespace *cgroup_ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
enum pid_type { PIDTYPE_PGID = 2, PIDTYPE_SID = 3, PIDTYPE_MAX = 4 };

struct tty_driver { int major, minor_start; };
struct tty_struct {
	struct tty_driver *driver;
	int index;
};

/* A mutex stores its owner. On PREEMPT_RT a mutex is an rt_mutex, with other names inside. */
struct mutex { atomic_long_t owner; };
struct rt_mutex_base { struct task_struct *owner; };
struct mutex___rt { struct rt_mutex_base rtmutex; };
struct rt_mutex { struct task_struct *owner; };
struct mutex___rt510 { struct rt_mutex lock; }; /* the real-time patches for 5.10 */

struct prev_cputime { __u64 utime, stime; };
struct task_io_accounting { __u64 rchar, wchar, read_bytes, write_bytes; };
struct list_head { struct list_head *next; };
struct seqcount { unsigned int sequence; };

struct signal_struct {
	atomic_t live;
	int nr_threads;
	int group_exit_code;
	unsigned int flags;
	unsigned int is_child_subreaper : 1, has_child_subreaper : 1;
	struct pid *pids[PIDTYPE_MAX];
	struct tty_struct *tty;
	struct mutex cred_guard_mutex;
	/* Threads that have been released. */
	struct list_head thread_head; /* the others */
	struct seqcount stats_lock; /* a seqlock starts with one */
	__u64 utime, stime, sum_sched_runtime;
	struct prev_cputime prev_cputime;
	unsigned long maxrss;
	struct task_io_accounting ioac; /* includes children that were waited for */
	__u64 cutime, cstime; /* of these children */
	unsigned long cmaxrss;
};

struct qstr { const unsigned char *name; };
struct dentry {
	struct seqcount d_seq; /* other counter types start with it */
	struct dentry *d_parent;
	struct qstr d_name;
};
struct vfsmount { struct dentry *mnt_root; };
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};
struct fs_struct {
	struct seqcount seq; /* or a type that starts with it */
	struct path root, pwd;
};
/* 64-bit time, in which seconds and nanoseconds have 8 bytes each. */
struct timespec64 { __s64 tv_sec; long tv_nsec; };
struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};
struct inode {
	unsigned short i_mode;
	kuid_t i_uid;
	kgid_t i_gid;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	__u32 i_rdev;
	struct timespec64 i_ctime; /* until 6.5 */
};
struct inode___6_6 { struct timespec64 __i_ctime; };
struct inode___6_11 {
	__s64 i_ctime_sec;
	__u32 i_ctime_nsec;
};
struct file {
	struct path f_path;
	struct inode *f_inode;
	const struct cred *f_cred;
};
struct fdtable { struct file **fd; };
struct files_struct { struct fdtable *fdt; };
struct sock_common { unsigned short skc_family; };
struct sock { struct sock_common __sk_common; };
struct socket { struct sock *sk; };
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};
struct mm_struct {
	unsigned long arg_start, arg_end, env_start, env_end;
	struct file *exe_file;
};

struct kernfs_node {
	struct kernfs_node *parent;
	const char *name;
};
struct kernfs_node___6_15 {
	struct kernfs_node *__parent;
	const char *name;
};
struct cgroup { struct kernfs_node *kn; };
struct cgroup_subsys_state { struct cgroup *cgroup; };
enum cgroup_subsys_id { pids_cgrp_id = 11 };
struct css_set {
	struct cgroup_subsys_state *subsys[12];
	struct cgroup *dfl_cgrp;
};

struct spinlock { int slock; };
struct sched_entity { __u64 sum_exec_runtime; };
struct seccomp { int mode; };
struct task_struct {
	unsigned int __state;
	int pid, tgid;
	int exit_state, exit_code, exit_signal;
	struct pid *thread_pid;
	struct list_head ptraced, ptrace_entry, children;
	struct task_struct *real_parent, *group_leader;
	unsigned long atomic_flags;
	__u64 start_boottime;
	const struct cred *real_cred;
	char comm[16];
	__u64 self_exec_id;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct css_set *cgroups;
	kuid_t loginuid;
	unsigned int sessionid;
	struct seccomp seccomp;
	struct spinlock alloc_lock;
	struct list_head thread_node;
	struct sched_entity se;
	__u64 utime, stime;
	struct task_io_accounting ioac;
};
/* The name of start_boottime before 5.5; some distributions kept it in later kernels. */
struct task_struct___real { __u64 real_start_time; };
struct task_struct___flags { unsigned int flags; };
/* What clone3(2) and the kernel ask of a new task. */
struct kernel_clone_args {
	int io_thread; /* since 5.12 */
	int user_worker; /* since 6.4 */
};

#pragma clang attribute pop
#endif
