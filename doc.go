// Package quark reports what processes do on a Linux system: forks, execs,
// exits, changes of ids and names, in order, joined where they belong together,
// with everything known about the process.
//
// The events come from one of several kernel interfaces: eBPF programs on raw
// tracepoints, kprobes, or the proc connector. [Open] takes the best that the
// kernel and the caller's privileges admit, and says why it took no better. What
// an interface cannot know is flagged as unknown, and what it lost is counted.
//
// A [Queue] has no goroutine of its own, except while [Open] reads /proc: all work is done in
// [Queue.Get], by the caller. It is meant for one goroutine; [Queue.Close], [Queue.Drain],
// [Queue.Stats] and [Queue.Wake] may be called from others.
//
// # What is promised
//
// From v0.1.0 on this package and engine/container, engine/enginetest, engine/filter, engine/glob,
// engine/trace, exitsnoop and btfhub keep what they export within a minor version, with the text
// and JSON forms of events, the language of filters and the format of recordings. Of package engine
// that holds for what has a name here too, and for what a [Source] is made of; the rest is for
// quark's own use.
// New fields, kinds, causes of loss and members may come at any time: do not rely on NumFields and
// its like, nor compare structs. Errors are to be told apart with [errors.Is] and [errors.As], not
// by their words.
//
// A program needs to import only this package. [New] makes a queue on any source: with a Machine of
// package engine/enginetest, what a program does with events is tested without a kernel.
package quark
