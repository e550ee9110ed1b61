// Package selftest checks a source with types that may not be the running kernel's.
//
// [Run] starts a tiny program, the witness program, and compares its FORK, EXEC and EXIT as the
// source reports them with what /proc and its parent, this process, know. The program is executed
// from memory and needs no file. It has a session, a terminal, a working directory on a mount and
// arguments of its own, so that a value read from a wrong place differs.
package selftest
