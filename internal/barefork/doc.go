// Package barefork starts child processes that do nothing but a list of system
// calls: no Go runtime, no thread, no signal handler and no exec that was not
// asked for. What such a process does is therefore known exactly, which is what
// a test of process telemetry needs as its truth.
//
// A child is a copy of the caller (fork(2)), so it can block, change its ids or
// end without harm to it. Threads of a child have no Go stack at all: a loop of
// a dozen instructions takes their system calls from the list.
package barefork
