// Package btfhub finds the types (BTF) of the running kernel, including kernels without BTF. It is
// for quark's own packages and commands: its API may change at any time.
//
// [Open] reads the BTF file that the caller names, else the kernel's own, else an archive in the
// binary. The archive has, for each known release, the few types that quark reads. From the
// kernel's own types Open keeps only these too, and releases the memory of the others. [Resolve]
// returns the offsets of the members that kprobe definitions read.
//
// Open looks up only the running kernel's release in the archive. If the caller names another
// release, the backends use its types only after a self-test: everything they read of a process
// with these types must be right. They never use them on kernels that a read at a wrong address can
// harm.
package btfhub
