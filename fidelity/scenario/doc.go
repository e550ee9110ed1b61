// Package scenario has the workloads of the fidelity suite: process trees that
// write down themselves what they do.
//
// A scenario is performed by a process of its own, the director: the same program,
// executed again with the environment variable [Env], so that a program which uses
// this package calls [Main] first. The director forks processes that do nothing but
// a list of system calls, with readings of the clock between them, and what they
// execute is the same program again, which reports what it finds itself to be. All
// of them write records into one socket; its end is the end of the scenario.
package scenario
