//go:build cgo

// Command c is libquark, the C library: make bindings builds it, quark.h is its interface, and the
// manual pages of section 3 describe it.
//
// queue.c implements the functions of quark.h; it allocates the results and sets errno. The Go
// files hold the queues and write results into memory of C, so that no Go pointer reaches C. One C
// call makes one Go call, also for each event: the Go side never reads ahead, so a lookup finds the
// process table as of the last event, and the descriptor polls readable while events remain.
//
// Only this folder of quark needs cgo.
package main
