/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The kernel's types as far as the program reads them. Only names and nesting
 * count: CO-RE puts in the offsets of the running kernel at load time.
 */
#ifndef EXITSNOOP_KERNEL_H
#define EXITSNOOP_KERNEL_H

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

/* From the kernel's user interface, linux/bpf.h. */
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};
struct bpf_pidns_info {
	__u32 pid, tgid;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct { int counter; } atomic_t;
struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
};
struct task_struct {
	int exit_state, exit_code;
	struct task_struct *group_leader;
	__u64 start_boottime;
	struct signal_struct *signal;
};
/* start_boottime's name before 5.5; some distributions kept it. */
struct task_struct___real { __u64 real_start_time; };

#pragma clang attribute pop
#endif
