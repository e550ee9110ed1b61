// Package backends lists quark's kernel sources and chooses one of those that the caller allows:
// eBPF first, then kprobe, then the proc connector. It tries other sources only if the caller names
// them, because they report less. It also returns the reasons why earlier sources could not be
// used.
package backends
