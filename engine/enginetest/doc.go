// Package enginetest tests what is done with events, without a kernel. A [Machine] has made-up
// processes, a few words each, and is a source for quark.New. A [Source] is fed event by event,
// from code or from a recorded trace, and a [Clock] moves when told to.
package enginetest
