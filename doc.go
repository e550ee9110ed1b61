// Package quark reports what processes do on a Linux system: forks, execs,
// exits, changes of ids and names, in order, joined where they belong together,
// with everything known about the process.
//
// The events come from one of several kernel interfaces: eBPF programs on raw
// tracepoints, kprobes, or the proc connector. [Open] takes the best that the
// kernel and the caller's privileges admit, and says why it took no better. What
// an interface cannot know is flagged as unknown, and what it lost is counted.
//
// A [Queue] has no goroutine of its own: all work is done in [Queue.Get], by
// the caller. It is meant for one goroutine; [Queue.Close], [Queue.Drain],
// [Queue.Stats] and [Queue.Wake] may be called from others.
//
// A program needs to import only this package. [New] makes a queue on any source: with a Machine of
// package engine/enginetest, what a program does with events is tested without a kernel.
package quark
