// Command quark-btf prints the offsets of the members of the kernel's types that quark reads: from
// the running kernel's BTF, a file, or the archive in the binary. See docs/quark-btf.8.
package main
