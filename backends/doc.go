// Package backends is the list of quark's kernel sources and the choice among
// them: eBPF first, then kprobe, then the proc connector, limited to what the
// caller allows. Why an earlier one was not taken is kept and told.
package backends
