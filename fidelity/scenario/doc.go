// Package scenario has the workloads of the fidelity suite: process trees that record what they
// do themselves.
//
// A scenario is performed by a process of its own, the director. It is the same program,
// executed again with the environment variable [Env], so a program that uses this package calls
// [Main] first. The director forks processes that make a list of system calls and read the clock
// between them. The programs that these execute either wait and are observed by the director, or
// are this program again and report their own state. All processes write records into one
// socket; the scenario is over when its last writer has closed it.
package scenario
