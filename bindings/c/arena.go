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

// arena allocates from the memory of a block. If the memory is too small, only the needed size is
// computed: alloc then returns nil, and done requests this size.
type arena struct {
	at         unsafe.Pointer
	size, used uintptr
}

func arenaOf(b *C.struct_block) arena { return arena{at: b.data, size: uintptr(b.size)} }

// done returns ENOBUFS if the memory was too small.
func (r *arena) done(b *C.struct_block) C.int {
	if b.used = C.size_t(r.used); r.used > r.size {
		return C.int(syscall.ENOBUFS)
	}
	return 0
}

// alloc returns n bytes, which are not cleared. Callers allocate structures before strings, so that
// they are aligned: their sizes are multiples of 8.
func (r *arena) alloc(n uintptr) unsafe.Pointer {
	from := r.used
	if r.used += n; r.used > r.size {
		return nil
	}
	return unsafe.Add(r.at, from)
}

// text returns a copy of s that ends in a NUL.
func (r *arena) text(s string) *C.char { return r.bytes(unsafe.Slice(unsafe.StringData(s), len(s))) }

func (r *arena) bytes(s []byte) *C.char {
	to := (*byte)(r.alloc(uintptr(len(s)) + 1))
	if to == nil {
		return nil
	}
	b := unsafe.Slice(to, len(s)+1)
	b[copy(b, s)] = 0
	return (*C.char)(unsafe.Pointer(to))
}
