//go:build cgo

// Command c is libquark, the C library: make bindings builds it, quark.h is its interface, and the
// manual pages of section 3 describe it.
//
// It has two halves. queue.c has the functions of quark.h: access to a queue, errno, and the memory
// of results. The Go files hold the queue, and write results into this memory, so that no Go
// pointer reaches C. One C call makes one Go call, also for each event: a lookup after an event
// then finds the table as of this event, and the descriptor polls readable as long as there are
// events.
//
// Of all quark only this folder needs cgo: without it the package does not exist.
package main
