// Package enginetest tests what is done with events, without a kernel: sources for quark.New and
// engine.New. A [Machine] has made-up processes, a few words each, a [Trace] is a recording, and a
// [Source] is fed event by event, with a [Clock] that moves when told to.
package enginetest
