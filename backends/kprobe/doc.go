// Package kprobe is the source of process events for kernels without usable
// eBPF: probes of the kernel's functions, defined through tracefs, whose
// records come through perf rings.
//
// What a probe fetches is built from the offsets in the kernel's types. A
// definition has room for little, so that an event may be several records of
// probes on one function; they are joined by their counts, which go in step.
// What a kernel lacks costs the field or the kind of event that needed it,
// which [Source.Capabilities] then shows with the reason.
package kprobe
