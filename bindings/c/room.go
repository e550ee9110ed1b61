//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// room is the memory of a block while the block is filled. If the memory is too small, only the
// needed size is computed: take then returns nil, and done requests this size.
type room struct {
	at         unsafe.Pointer
	size, used uintptr
}

func roomOf(b *C.struct_block) room { return room{at: b.data, size: uintptr(b.size)} }

// done returns ENOBUFS if the room was too small.
func (r *room) done(b *C.struct_block) C.int {
	if b.used = C.size_t(r.used); r.used > r.size {
		return C.int(syscall.ENOBUFS)
	}
	return 0
}

// take returns n bytes, which are not cleared. Structures are taken before strings, so that they
// are aligned: their sizes are multiples of 8.
func (r *room) take(n uintptr) unsafe.Pointer {
	from := r.used
	if r.used += n; r.used > r.size {
		return nil
	}
	return unsafe.Add(r.at, from)
}

// text returns a copy of s that ends in a NUL.
func (r *room) text(s string) *C.char { return r.bytes(unsafe.Slice(unsafe.StringData(s), len(s))) }

func (r *room) bytes(s []byte) *C.char {
	to := (*byte)(r.take(uintptr(len(s)) + 1))
	if to == nil {
		return nil
	}
	b := unsafe.Slice(to, len(s)+1)
	b[copy(b, s)] = 0
	return (*C.char)(unsafe.Pointer(to))
}
