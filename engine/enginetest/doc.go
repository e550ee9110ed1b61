// Package enginetest runs the engine without a kernel: a [Source] that is fed
// from code or from a recorded trace, and a [Clock] that moves when told to.
package enginetest
