package cnproc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// getsockopt exists because package unix has no call for an array of numbers.
func getsockopt(fd, level, name int, info *[9]uint32) error {
	size := uint32(unsafe.Sizeof(*info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	if size < uint32(unsafe.Sizeof(*info)) {
		return unix.EOPNOTSUPP // before SK_MEMINFO_DROPS was added
	}
	return nil
}
