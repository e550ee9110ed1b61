package quark

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"sync"
)

// Files reads the files that processes execute, which takes too long to be part of an event. The
// zero Files is ready for use, also by several goroutines. It remembers files by device, inode and
// ctime: what is executed often is read once, and is then known of processes that have ended, too.
type Files struct {
	// MaxSize is the size in bytes up to which files are read, 0 for 128 MiB.
	MaxSize int64

	mu     sync.Mutex
	files  map[fileID]remembered
	mounts mounts
}

// File is what [Files] knows of the file that a process executes.
type File struct {
	SHA256   [sha256.Size]byte // of the contents
	TooLarge bool              // the file is larger than MaxSize, and SHA256 is not known
	Caps     FileCaps
	HasCaps  bool

	// Carried is set if the file may have been another at the EXEC: the fields executable and
	// cmdline are carried; the process executes the file, which got another ctime since, as by
	// its removal; the process has ended, and its file system may have been mounted after it
	// began; or the ctime does not tell. It tells if the file is older than the process,
	// and is on ext2 to 4, XFS, F2FS, EROFS, SquashFS or, where the field is from /proc, btrfs.
	// With tmpfs a write to a mapping does not set it, and overlayfs may lie on that.
	Carried bool
}

// FileCaps are the capabilities of a file, see capabilities(7).
type FileCaps struct {
	Permitted, Inheritable uint64
	Effective              bool
	// Root is the user, in the initial user namespace, that is root in the user namespace in
	// which the file has the capabilities: 0 if that is the initial one.
	Root uint32
}

// Why [Files.Read] does not know a file, besides what the system says.
var (
	// ErrFileGone: the process has ended or executes another file, its file was not read
	// before, and is not at Filename.
	ErrFileGone = errors.New("the process does not execute it any more")
	// ErrFileChanged: the file has changed since it was executed by a process that has ended,
	// or while it was read.
	ErrFileChanged = errors.New("the file has changed")
	// ErrFileRemote: the file system is none of those that need only the kernel. With FUSE or
	// NFS it may take for ever to read a file, and the file may change unseen.
	ErrFileRemote = errors.New("files of this file system are not read")
)

// fileID names one state of a file.
type fileID struct {
	device uint32
	inode  uint64
	ctime  int64
}

// remembered is a file that was read.
type remembered struct {
	File
	since uint64 // boot ns: the device has been mounted since then; the most if nobody knows
}

// maxFiles is how many files are remembered.
const maxFiles = 4096

func (f *Files) lookup(id fileID) (file remembered, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetUnmounted()
	file, ok = f.files[id]
	return file, ok
}

// remember remembers a file that is open, so that its device is mounted.
func (f *Files) remember(id fileID, file File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetUnmounted()
	since, ok := f.mounts.since[id.device]
	if !ok {
		return
	}
	if f.files == nil {
		f.files = make(map[fileID]remembered)
	}
	f.files[id] = remembered{file, since}
}

// forgetUnmounted forgets the files of devices that were unmounted: the number of a device is given
// again, and files of two images can have the same inode and ctime.
func (f *Files) forgetUnmounted() {
	for device, unmounted := range f.mounts.ended() {
		for id, file := range f.files {
			switch {
			case id.device != device:
			case unmounted:
				delete(f.files, id)
			default:
				file.since = math.MaxUint64
				f.files[id] = file
			}
		}
	}
}

// mounts knows since when devices have been mounted, as long as a file of each is watched.
type mounts struct {
	notices *os.File // of inotify(7), nil before the first
	fd      int      // its descriptor
	devices map[int32]uint32
	watches map[uint32]int    // how many of a device
	since   map[uint32]uint64 // boot ns, of the devices that are watched
}

// parseFileCaps parses the attribute security.capability: struct vfs_cap_data or vfs_ns_cap_data of
// linux/capability.h.
func parseFileCaps(b []byte) (c FileCaps, ok bool) {
	const version2, version3, effective = 2, 3, 1
	if len(b) < 20 {
		return c, false
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	c.Effective = word(0)&effective != 0
	c.Permitted = uint64(word(3))<<32 | uint64(word(1))
	c.Inheritable = uint64(word(4))<<32 | uint64(word(2))
	switch version := word(0) >> 24; {
	case version == version2 && len(b) == 20:
		return c, true
	case version == version3 && len(b) == 24:
		c.Root = word(5)
		return c, true
	}
	return FileCaps{}, false
}
