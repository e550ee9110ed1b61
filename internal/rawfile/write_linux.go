// Package rawfile writes to regular files past Go's scheduler. Any other write wakes the runtime's
// monitor thread, which then wakes up every 20 microseconds as long as there is work.
package rawfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// File is a regular file.
type File struct{ *os.File }

func (f File) Write(b []byte) (n int, err error) {
	for n < len(b) {
		k, _, errno := unix.RawSyscall(unix.SYS_WRITE, f.Fd(), uintptr(unsafe.Pointer(&b[n])), uintptr(len(b)-n))
		if errno == 0 {
			n += int(k)
		} else if errno != unix.EINTR {
			return n, &os.PathError{Op: "write", Path: f.Name(), Err: errno}
		}
	}
	return n, nil
}
