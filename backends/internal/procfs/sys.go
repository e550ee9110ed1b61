package procfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The wrappers of package unix copy every path into a new string with a final NUL. These take paths
// with a final NUL, and do not allocate.

func openat(dir int, pathNUL []byte, flags int) (int, unix.Errno) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&pathNUL[0])),
			uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if errno != unix.EINTR {
			return int(fd), errno
		}
	}
}

func readlinkat(dir int, pathNUL, buf []byte) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(&pathNUL[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	return int(n), errno
}

func read(fd int, buf []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// pread reads from an offset of a file.
func pread(fd int, buf []byte, offset int) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), uintptr(offset), 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// statx returns what a path leads to. It may wait for a remote file system, though it accepts
// cached attributes.
func statx(dir int, pathNUL []byte, mask uintptr) (st unix.Statx_t, errno unix.Errno) {
	_, _, errno = unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&pathNUL[0])),
		unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, mask, uintptr(unsafe.Pointer(&st)), 0)
	return st, errno
}

// closeFD never blocks for a file of /proc.
func closeFD(fd int) { unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }
