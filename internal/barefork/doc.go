// Package barefork starts child processes that only make the system calls of a list: no Go
// runtime and no threads, signal handlers or execs besides those in the list. The actions of
// such a process are known exactly, so that tests of process telemetry can use them as the
// truth.
//
// A child is a fork(2) of the caller, so it can block, change its ids or end without affecting
// the caller. It can start threads and children that have lists of their own, and execute a small
// program that goes on with its list. All of them have no stack: a loop of a dozen instructions
// makes their system calls, and the lists, with the results, are in memory that the caller shares.
package barefork
