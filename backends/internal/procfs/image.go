package procfs

import "golang.org/x/sys/unix"

// OpenImage returns a descriptor of the address space that process pid has, if there is one. It
// stays one of that address space when the process executes another image.
func (r *Reader) OpenImage(pid uint32) (fd int32, ok bool) {
	n, errno := openat(r.proc, r.name(pid, "/mem"), unix.O_RDONLY)
	return int32(n), errno == 0
}

// ImageLives reports whether a process has the address space of a descriptor still.
func (r *Reader) ImageLives(fd int32) bool {
	// Where nobody has it, a read is at the end; else it shows memory, or fails where none is.
	var b [1]byte
	n, errno := pread(int(fd), b[:], 0)
	return n > 0 || errno != 0
}
