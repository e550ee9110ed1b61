package source

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// File is the file of a standard stream, as in the kernel. Devices have 12 bits of major and 20
// bits of minor number.
type File struct {
	Inode        uint64
	Device, Rdev uint32
	Magic        uint32 // of the file system
	Mode         uint16 // 0 for a closed descriptor
	Family       uint16 // only a socket has one
	// Unlisted is set if the file never was in a directory. It counts only on tmpfs and
	// hugetlbfs.
	Unlisted bool
}

// Device returns a device number as in st_dev, from the kernel's number.
func Device(kernel uint32) uint32 { return uint32(unix.Mkdev(kernel>>20, kernel&0xfffff)) }

// Stream returns the stream.
func (f *File) Stream() engine.Stream {
	if f.Mode == 0 {
		return engine.Stream{Type: engine.StreamClosed}
	}
	s := engine.Stream{Inode: f.Inode, Device: Device(f.Device), Type: f.streamType()}
	if s.Type == engine.StreamSocket {
		s.Family = engine.Family(f.Family)
	}
	return s
}

func (f *File) streamType() engine.StreamType {
	memory := f.Magic == unix.TMPFS_MAGIC || f.Magic == unix.HUGETLBFS_MAGIC
	// Since Linux 6.9 epoll and similar files are regular files for the kernel, but have no
	// type in fstat(2).
	typeless := f.Magic == unix.ANON_INODE_FS_MAGIC || f.Magic == unix.PID_FS_MAGIC
	switch format := f.Mode & unix.S_IFMT; {
	case format == unix.S_IFREG && memory && f.Unlisted:
		return engine.StreamMemfd
	case format == unix.S_IFREG && !typeless:
		return engine.StreamFile
	case format == unix.S_IFIFO:
		return engine.StreamPipe
	case format == unix.S_IFSOCK && f.Magic == unix.SOCKFS_MAGIC: // else the name of a socket
		return engine.StreamSocket
	case format == unix.S_IFCHR && f.Rdev == 1<<20|3:
		return engine.StreamNull
	case format == unix.S_IFCHR && isTTY(f.Rdev>>20):
		return engine.StreamTTY
	}
	return engine.StreamOther
}

// isTTY reports whether a major number of character devices is for terminals: BSD and UNIX 98
// pseudoterminals, consoles, ttyS and ptmx, ttyACM, ttyUSB, ttyAMA and hvc.
func isTTY(major uint32) bool {
	switch major {
	case 2, 3, 4, 5, 166, 188, 204, 229:
		return true
	}
	return major >= 128 && major <= 143
}
