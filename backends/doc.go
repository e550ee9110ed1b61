// Package backends has the list of quark's kernel sources and chooses one: eBPF first, then kprobe,
// then the proc connector, limited to those that the caller allows. It keeps why an earlier one
// could not be used.
package backends
