// Command quark-btf shows where the kernel keeps what quark reads: the offsets
// of members in the kernel's types, from the running kernel's BTF, a file, or
// the archive in the binary. See quark-btf(8).
package main
