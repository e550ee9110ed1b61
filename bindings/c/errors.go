//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"github.com/quark-linux/quark"
)

// badReplay is the error for a file that is not a recording.
type badReplay struct {
	file string
	err  error
}

func (e *badReplay) Error() string { return fmt.Sprintf("replay %s: %v", e.file, e.err) }

// report returns the errno for err, 0 for nil, and writes the text of err for quark_last_error.
func report(err error, message *C.char) C.int {
	if err == nil {
		return 0
	}
	setText(message, C.MESSAGE_LENGTH, err.Error())
	return C.int(errnoOf(err))
}

func errnoOf(err error) syscall.Errno {
	var (
		option *quark.OptionError
		filter *quark.FilterError
		opened *quark.OpenError
		replay *badReplay
		number syscall.Errno
	)
	switch {
	case errors.As(err, &option), errors.As(err, &filter):
		return syscall.EINVAL
	case errors.As(err, &replay):
		return syscall.EBADMSG
	case errors.Is(err, os.ErrClosed):
		return syscall.EBADF
	case errors.As(err, &opened): // the backends failed with different errors
		if errors.Is(err, os.ErrPermission) {
			return syscall.EPERM
		}
		return syscall.ENOTSUP
	case errors.As(err, &number):
		return number
	case errors.Is(err, errors.ErrUnsupported):
		return syscall.ENOTSUP
	}
	return syscall.EIO
}

// setText writes text, cut to size, and a NUL to an array.
func setText(to *C.char, size C.size_t, text string) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(to)), int(size))
	b[copy(b[:len(b)-1], text)] = 0
}
