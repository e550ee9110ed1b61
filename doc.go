// Package quark reports the activity of processes on a Linux system: forks, execs, exits, changes
// of ids and names, in order, with related events joined, and with all known values of the process.
//
// The events come from one of several kernel interfaces: eBPF programs on raw tracepoints, kprobes,
// or the proc connector. [Open] uses the best interface that the kernel and the caller's privileges
// allow, and reports why better ones failed. Values that an interface does not provide are flagged
// as unknown, and lost events are counted.
//
// One goroutine uses a [Queue]. All work is done in its calls of [Queue.Get].
//
// # Overview
//
// Most programs need these names:
//
//	Open, OpenContext, Options        attach to the kernel
//	ParseFilter, ParseRules           choose events, for Options.Where
//	Queue.Events, Queue.Get           read events until a context ends, or one by one
//	Event, Event.Events, EventExec    what happened
//	Process, Process.UID, .Exe, .Args, .Duration   the process of the event
//	Process.Container, .Tags          its container, and what rules call it
//	Event.Clone, Process.Clone        copies that stay valid
//	Queue.Lookup, Queue.Ancestors     other processes
//	Queue.Stats                       counters, also of lost events
//	New                               a queue of a test or a recording: see engine/enginetest
//
// Most types are declared in package engine, which has their methods:
//
//	go doc github.com/quark-linux/quark/engine.Process
//
// # Compatibility
//
// From v0.1.0 on this package and engine/container, engine/enginetest, engine/filter, engine/glob,
// engine/trace and exitsnoop keep their exported API within a minor version, with the text and JSON
// forms of events, the language of filters and the format of recordings. In package engine this
// covers only the names that are repeated here, and the types that a [Source] uses. New fields,
// kinds, causes of loss and members may come at any time: do not rely on NumFields and similar
// constants, nor compare structs. Distinguish errors with [errors.Is] and [errors.As], not by their
// text.
package quark
