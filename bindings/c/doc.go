//go:build cgo

// Command c is libquark, the C library: make bindings builds it, quark.h is its interface, and the
// manual pages of section 3 describe it.
//
// It has two halves. queue.c has the functions of quark.h: access to a queue, errno, and the memory
// that is handed out. The Go files have the queue, and write the results into that memory, so that
// no Go pointer reaches C. One C call makes one Go call, also for each event: a lookup between two
// events then sees the table as of the first, and the descriptor polls readable as long as events
// wait.
//
// Of all quark only this folder needs cgo: without it the package does not exist.
package main
