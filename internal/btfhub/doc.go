// Package btfhub finds the types (BTF) of the running kernel, also for kernels that do not have
// them.
//
// [Open] reads the BTF file that the caller names, else the kernel's own, else an archive in the
// binary. The archive has, for each known release, the few types that quark reads. Open reads no
// more of the kernel's own, because decoding all of them takes longer than the rest of opening a
// source. [Resolve] returns the offsets of the members that kprobe definitions read.
//
// If the archive does not have a release, Open takes that of the nearest release of the same
// distribution, flavour and series, of distributions that build these alike. This is a guess: the
// backends use it only after a self-test, in which all that they read of a process with these types
// must be true, and not at all on kernels that a read at a wrong address can harm.
package btfhub
