// Package enginetest tests consumers of events without a kernel. It has sources for quark.New and
// engine.New: a [Machine] simulates processes with a few calls, a [Trace] replays a recording, and
// a [Source] returns events that the test pushes. A [Clock] moves only when a test advances it.
package enginetest
