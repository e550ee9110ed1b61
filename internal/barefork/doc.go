// Package barefork starts child processes that only make the system calls of a list. They have no
// Go runtime, other threads, signal handlers or execs. Every action of such a process is known, so
// tests of process telemetry can use the actions as ground truth.
//
// A child is a fork(2) of the caller, so it can block, change its ids or exit without effect on the
// caller. It can start threads and children with their own lists, and execute a small program that
// continues with its list. All of them run without a stack: a loop of a dozen instructions makes
// the system calls. The lists, with the results, are in memory that the caller shares.
package barefork
