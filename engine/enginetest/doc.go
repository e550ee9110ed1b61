// Package enginetest tests consumers of events without a kernel: it has sources for quark.New and
// engine.New. A [Machine] has made-up processes, a few words each, a [Trace] is a recording, and a
// [Source] is fed event by event, with a [Clock] that moves only by calls.
package enginetest
