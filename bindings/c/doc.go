//go:build cgo

// Command c is libquark, the C library: make bindings builds it, quark.h is its interface, and the
// manual pages of section 3 describe it.
//
// It has two halves. queue.c has the functions of quark.h: who may use a queue, errno, and the
// memory that is handed out. The Go files have the queue, and write what the caller gets into that
// memory, so that no pointer of Go leaves them. One call of C makes one call of Go, also for each
// event: what is looked up between two events is then as of the first, and the descriptor polls
// readable as long as events wait.
//
// Of all quark only this folder needs cgo: without it the package does not exist.
package main
