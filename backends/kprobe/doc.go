// Package kprobe is the source of process events for kernels without usable
// eBPF: probes of the kernel's functions, defined through tracefs, whose
// records come through perf rings.
//
// What a probe fetches is built from the offsets in the kernel's types. A
// definition has room for little, so that an event may be several records of
// probes on one function; they are joined by their counts, which go in step.
//
// A path is fetched name by name, each by a chain of reads from the task: its
// directory, then parent after parent. The kernel takes 63 bytes of text for a
// chain, and 13 reads in one up to 6.12, 8 in 7.3. That is room for 7 names in the
// mount of a working directory, and for 6, 5 and 4 in the three mounts that it lies
// on; in 7.3 for 5, 4, 3 and 2. No function that every fork or execve goes through
// has an argument nearer to the names, and an array has no place for a chain. The
// front of a longer path is taken from /proc/PID, if the start time and the root
// directory show that it is the process's; else the path is marked as cut.
//
// What a kernel lacks costs the field or the kind of event that needed it,
// which [Source.Capabilities] then shows with the reason.
package kprobe
