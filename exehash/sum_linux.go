package exehash

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
)

// Sum returns the sum of the file that p executes. Unless it is in the cache, Sum reads the file
// from /proc/PID/exe or, if p has ended, from p.Exe. It compares device, inode and ctime with
// p.ExeFile before and after. With a busy queue call it in another goroutine, with p.Clone().
func (c *Cache) Sum(p *quark.Process) (Sum, error) {
	if p == nil || !p.Known.Has(quark.FieldExeFile) {
		return Sum{}, ErrUnknown
	}
	x := &p.ExeFile
	want := file{x.Device, x.Inode, x.Ctime}
	s, ok := c.lookup(want)
	if !ok {
		var err error
		if s, err = c.read(p, want); err != nil {
			return Sum{}, fmt.Errorf("read executable of pid %d: %w", p.PID, err)
		}
	}
	// The sum is certain if each write since the fork changed the ctime. The running executable
	// itself cannot be written.
	born := time.Now().UnixNano() - int64(clock.Boottime()-p.Start)
	certain := imageCertain(p) && p.Known.Has(quark.FieldStart) && changesCtime(x.Ctime, born)
	return Sum{s.SHA256, !s.exact || !certain}, nil
}

// read reads the file that p executes, or the file at p.Exe if p has ended.
func (c *Cache) read(p *quark.Process, want file) (sum, error) {
	s, err := c.readRunning(p, want)
	if !errors.Is(err, ErrGone) || !p.Known.Has(quark.FieldExe) || p.Truncated.Has(quark.FieldExe) || !filepath.IsAbs(p.Image.Exe) {
		return s, err
	}
	fd, pathErr := openCached(p.Image.Exe)
	if pathErr != nil {
		return s, err
	}
	return c.load(fd, want, false)
}

func (c *Cache) readRunning(p *quark.Process, want file) (sum, error) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(int(p.PID)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return sum{}, ErrGone
	}
	defer unix.Close(dir)
	if p.Known.Has(quark.FieldStart) {
		st, err := proctext.ReadStat(fmt.Sprintf("/proc/self/fd/%d/stat", dir))
		if err != nil || st.Start/engine.ProcStartUnit != p.Start/engine.ProcStartUnit {
			return sum{}, ErrGone // another process has the pid
		}
	}
	fd, err := unix.Openat(dir, "exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return sum{}, ErrGone
	case err != nil:
		return sum{}, err
	}
	return c.load(fd, want, true)
}

// openCached opens a path with O_PATH, but only if the path is in the kernel's dentry cache (Linux
// 5.12). An observed process chose the path, so it must not make this program contact a server or
// mount a file system.
func openCached(path string) (fd int, err error) {
	const cached = 0x20 // RESOLVE_CACHED of linux/openat2.h
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | cached}
	for range 3 { // openat2 can fail during a concurrent rename
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, &how); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

func identify(fd int) (f file, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return f, 0, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return f, 0, ErrGone
	}
	return file{uint32(st.Dev), st.Ino, st.Ctim.Nano()}, st.Size, nil
}

// fileSystems lists the supported file systems. The value is whether every change of the contents
// sets the ctime.
var fileSystems = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:      true, // also ext2 and ext3
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.F2FS_SUPER_MAGIC:      true,
	unix.EROFS_SUPER_MAGIC_V1:  true,
	unix.SQUASHFS_MAGIC:        true,
	unix.TMPFS_MAGIC:           false, // a write to a memory mapping does not set the ctime
	unix.RAMFS_MAGIC:           false,
	unix.HUGETLBFS_MAGIC:       false,
	unix.OVERLAYFS_SUPER_MAGIC: false, // layers may be on any file system
	unix.ISOFS_SUPER_MAGIC:     false,
	unix.MSDOS_SUPER_MAGIC:     false,
	unix.EXFAT_SUPER_MAGIC:     false,
	0x2fc12fc1:                 false, // ZFS
	0xca451a4e:                 false, // bcachefs
}

// load returns the sum of the wanted file, and closes fd, an O_PATH descriptor. If the ctime of the
// executed file has changed, for example by removal, the sum is not exact.
func (c *Cache) load(fd int, want file, running bool) (s sum, err error) {
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return s, err
	}
	exact, local := fileSystems[uint32(fs.Type)]
	if !local {
		return s, ErrFileSystem
	}
	begin := time.Now().UnixNano()
	is, size, err := identify(fd)
	// On btrfs stat(2) reports another device than the inode in the kernel, from which want is.
	sameDevice := is.device == want.device || running && is.ctime == want.ctime && is.ctime%1e9 != 0
	switch {
	case err != nil:
		return s, err
	case is.inode != want.inode, !sameDevice:
		return s, ErrGone
	case is.ctime != want.ctime && !running:
		return s, ErrChanged
	}
	s, ok := c.lookup(is)
	if !ok {
		if s.SHA256, err = c.hash(fd, is, size); err != nil {
			return s, err
		}
		s.exact = exact && changesCtime(is.ctime, begin)
		c.store(is, s)
	}
	s.exact = s.exact && is.ctime == want.ctime
	return s, nil
}

// hash reads a file, and fails if the state of the file differs from is, before or after.
func (c *Cache) hash(fd int, is file, size int64) (digest [sha256.Size]byte, err error) {
	if size > cmp.Or(c.MaxSize, 128<<20) {
		return digest, ErrTooLarge
	}
	// O_NONBLOCK: fail if another process holds a lease, do not wait
	r, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return digest, err
	}
	defer r.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, size+1))
	if err != nil {
		return digest, err
	}
	if again, now, err := identify(fd); err != nil || again != is || now != size || n != size {
		return digest, ErrChanged
	}
	h.Sum(digest[:0])
	return digest, nil
}
