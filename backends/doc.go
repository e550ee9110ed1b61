// Package backends has the list of quark's kernel sources and chooses one: eBPF first, then kprobe,
// then the proc connector, limited to those that the caller allows. Others are tried only if the
// caller names them, as they know less. It keeps why an earlier one could not be used.
package backends
