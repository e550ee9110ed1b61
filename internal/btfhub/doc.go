// Package btfhub finds the types (BTF) of the running kernel, also for kernels that do not have
// them.
//
// [Open] reads the BTF file that the caller names, else the kernel's own, else an archive in the
// binary. The archive has, for each known release, the few types that quark reads. Open reads no
// more of the kernel's own, because decoding all of them takes longer than the rest of opening a
// source. [Resolve] returns the offsets of the members that kprobe definitions read.
//
// The archive is asked for the running kernel's release only. If the caller names another release,
// the backends use its types only after a self-test, in which all that they read of a process with
// these types must be true, and not at all on kernels that a read at a wrong address can harm.
package btfhub
