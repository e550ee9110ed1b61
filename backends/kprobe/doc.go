// Package kprobe is the source of process events for kernels without usable eBPF. It defines probes
// of kernel functions in tracefs, and reads their samples from perf rings.
//
// The fetch arguments of a probe are built from the offsets in the kernel's types. A definition is
// limited in length, so that an event may need samples of several probes on one function. They are
// joined by their counts, which are equal.
//
// A path is fetched name by name, each by a chain of reads from the task: its directory, then
// parent after parent. The kernel limits a chain to 63 bytes of text, and to 13 reads up to 6.12
// and 8 in 7.3. That allows for 7 names in the mount of a working directory, and for 6, 5 and 4 in
// the three mounts above it; in 7.3 for 5, 4, 3 and 2. No function on the path of every fork or
// execve has an argument nearer to the names, and an array can't hold a chain. The front of a
// longer path is read from /proc/PID if the start time and the root directory show that it is the
// same process; else the path is marked as truncated.
//
// If a kernel lacks a feature, the fields or kinds of events that need it are missing.
// [Source.Capabilities] shows them with the reason.
package kprobe
