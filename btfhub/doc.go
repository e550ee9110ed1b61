// Package btfhub finds the types of the running kernel, also where the kernel
// does not offer them.
//
// [Open] takes the BTF file that it is told of, else the kernel's own, else one
// from an archive in the binary that has, for each known kernel release, the
// few types that quark reads. Of the kernel's own it takes no more either, for to
// decode them all takes longer than the rest of opening a source. [Resolve] looks
// up in a BTF where the members stand that kprobe definitions read. A release that
// the archive does not have gets its nearest relative's types, which are a guess:
// the backends use them only after a self-test, in which all that is read of a
// process through them was true.
package btfhub
