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
