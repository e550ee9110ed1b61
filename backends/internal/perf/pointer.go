package perf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctlPointer is ioctl(2) with a pointer to memory of Go.
func ioctlPointer(fd int, request uint, p *byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(p)))
	if errno != 0 {
		return errno
	}
	return nil
}

// read is read(2). It is over at once, so that Go's scheduler need not know.
func (e *Event) read(b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
