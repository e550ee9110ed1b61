// Package selftest tells whether a source reads the right things out of the
// kernel when its types may not be the running kernel's.
//
// [Run] starts a tiny program, the witness, which waits, and compares what the
// source says of its FORK, EXEC and EXIT with what /proc and its parent, this
// process, know of it. The program is in memory, so that no file is needed. It
// has a session, a terminal, a working directory on a mount and arguments of its
// own, so that a member which is looked for in the wrong place shows.
package selftest
