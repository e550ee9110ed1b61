// Package barefork starts child processes that only make the system calls of a list: no Go runtime
// and no other threads, signal handlers or execs. The actions of such a process are known exactly,
// so tests of process telemetry can use them as ground truth.
//
// A child is a fork(2) of the caller, so it can block, change its ids or end without effect on the
// caller. It can start threads and children with their own lists, and execute a small program that
// continues with its list. All of them have no stack: a loop of a dozen instructions makes the
// system calls, and the lists, with the results, are in memory that the caller shares.
package barefork
