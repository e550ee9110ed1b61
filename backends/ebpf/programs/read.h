/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads of the kernel's memory. By bpf_probe_read_kernel one takes some 20 ns. From Linux 6.2 on
 * bpf_rdonly_cast makes an address a pointer that a program can read from itself, which takes one
 * or two.
 */
#ifndef QUARK_READ_H
#define QUARK_READ_H

/*
 * User space replaces this number, which is no helper's and nowhere else in the programs: in the
 * call by the id of bpf_rdonly_cast, as a value by the id of a type that begins with an array of 65
 * bytes, or by 0 if there is no cast. A variable would take more of the verifier's time.
 */
#define CAST 51799
static void *(*const rdonly_cast)(const void *address, __u32 type) = (void *)CAST;

#ifdef PERF_BUFFER
#define BYTES_TYPE 0 /* such kernels are older */
#else
#define BYTES_TYPE                                      \
	({                                              \
		__u64 id;                               \
		asm("%0 = %1" : "=r"(id) : "i"(CAST));  \
		id;                                     \
	})
#endif

/* Whether reads of so many bytes need no call. */
#define READS_DIRECTLY(size) (((size) < 8 || (size) % 8 == 0) && (size) <= 40 && BYTES_TYPE)

/* What a read writes to may be of any type. */
typedef __u8 __attribute__((may_alias)) any1;
typedef __u16 __attribute__((may_alias)) any2;
typedef __u32 __attribute__((may_alias)) any4;
typedef __u64 __attribute__((may_alias)) any8;

/*
 * Read size bytes, a constant. Returns 0, or an error, then with zeroes. A direct read gives zeroes
 * without an error, so that callers look for themselves at each pointer that may be NULL. Where the
 * memory can be freed meanwhile, and not by RCU, they also look for a member that is never 0.
 */
static __always_inline long read_kernel(void *to, __u32 size, const void *from)
{
	const volatile void *at;

	if (!READS_DIRECTLY(size))
		return bpf_probe_read_kernel(to, size, from);
	at = rdonly_cast(from, BYTES_TYPE);
	switch (size) {
	case 1:
		*(any1 *)to = *(const volatile any1 *)at;
		break;
	case 2:
		*(any2 *)to = *(const volatile any2 *)at;
		break;
	case 4:
		*(any4 *)to = *(const volatile any4 *)at;
		break;
	default:
#pragma unroll
		for (int i = 0; i < size / 8; i++)
			((any8 *)to)[i] = ((const volatile any8 *)at)[i];
	}
	return 0;
}

#undef bpf_core_read
#define bpf_core_read(to, size, from) read_kernel(to, size, (const void *)__builtin_preserve_access_index(from))

#endif
