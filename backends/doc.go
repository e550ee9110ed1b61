// Package backends lists quark's kernel sources and chooses one: eBPF first, then kprobe, then the
// proc connector, limited to those that the caller allows. It tries others only if the caller names
// them, because they report less. It returns why the earlier ones could not be used.
package backends
