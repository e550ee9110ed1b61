// Package kprobe is the source of process events for kernels without usable eBPF. It defines probes
// of kernel functions in tracefs, and reads their samples from perf rings.
//
// The fetch arguments of a probe are built from the offsets in the kernel's types. The length of a
// definition is limited, so an event may need samples of several probes on one function. They are
// joined by their hit counts, which are equal.
//
// A path is fetched name by name: the directory, then its parents. Each name takes a chain of reads
// from the task. The kernel limits a chain to 63 bytes of text, and to 13 reads up to 6.12 and 8 in
// 7.3. This allows 7 names in the mount of a working directory, and 6, 5 and 4 in the three mounts
// above it; in 7.3 it allows 5, 4, 3 and 2. No function that every fork or execve calls has an
// argument nearer to the names, and an array cannot hold a chain. The front of a longer path is
// read from /proc/PID if the start time and the root directory show that it is the same process.
// Otherwise the path is marked as truncated.
//
// If a kernel lacks a feature, the fields or kinds of events that need it are missing.
// [Source.Capabilities] shows them with the reason.
package kprobe
