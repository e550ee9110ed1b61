// Package btfhub finds the types (BTF) of the running kernel, including kernels without BTF. It is
// for quark's own packages and commands: its API may change at any time.
//
// [Open] reads the BTF file that the caller names, else the BTF of the running kernel, else an
// archive in the binary. The archive has, for each known release, the few types that quark reads.
// Open reduces the running kernel's BTF to these types, too. [Resolve] returns the offsets of the
// members that kprobe definitions read.
//
// Open looks up only the running kernel's release in the archive. If the caller names another
// release, the backends use its types only after a self-test: every value that a backend reads with
// these types must be correct. The backends never use such types on kernels that a read at a wrong
// address can harm.
package btfhub
