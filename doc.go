// Package quark reports the activity of processes on a Linux system: forks, execs, exits, changes
// of ids and names, in order, with related events joined, and with all known values of the process.
//
// The events come from one of several kernel interfaces: eBPF programs on raw tracepoints, kprobes,
// or the proc connector. [Open] uses the best that the kernel and the caller's privileges allow,
// and reports why better ones failed. Values that an interface cannot know are flagged as unknown,
// and lost events are counted.
//
// A [Queue] has no goroutine of its own, except while [Open] reads /proc: all work is done in
// [Queue.Get], by the caller. It is meant for one goroutine; [Queue.Close], [Queue.Drain],
// [Queue.Stats] and [Queue.Wake] may be called from others.
//
// # Compatibility
//
// From v0.1.0 on this package and engine/container, engine/enginetest, engine/filter, engine/glob,
// engine/trace, exitsnoop and btfhub keep their exported API within a minor version, with the text
// and JSON forms of events, the language of filters and the format of recordings. For package
// engine this covers the names that are repeated here, and the types that a [Source] uses; the rest
// is internal. New fields, kinds, causes of loss and members may come at any time: do not rely on
// NumFields and similar constants, nor compare structs. Distinguish errors with [errors.Is] and
// [errors.As], not by their text.
//
// A program needs to import only this package. [New] makes a queue on any source: with a Machine of
// package engine/enginetest, a program's handling of events is tested without a kernel.
package quark
