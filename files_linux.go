package quark

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
)

// Read returns what the file that p executes is. If it does not remember the file it reads it
// through /proc/PID/exe or, if p has ended, by its path, which takes as long as the file system
// takes: with a busy queue do that in another goroutine, with a Clone of p. Device, inode and ctime
// before and after it show that it is the file of p.Executable.
func (f *Files) Read(p *Process) (File, error) {
	if p == nil || !p.Known.Has(FieldExecutable) {
		return File{}, errors.New("read executable: which file it is is not known")
	}
	x := &p.Executable
	id := fileID{x.Device, x.Inode, x.Ctime}
	known, ok := f.lookup(id)
	file := known.File
	if !ok || !startedAfter(p, known.since) && !executes(p, id) {
		switch found, err := f.find(p, id); {
		case err == nil:
			file = found
		case ok:
			file.Carried = true
		default:
			return File{}, fmt.Errorf("read executable of pid %d: %w", p.PID, err)
		}
	}
	// Nobody can write to a file that is executed. So all is told by the ctime if what was
	// written when the process had started, or later, has another one.
	started := time.Now().UnixNano() - int64(clock.Boottime()-p.Start)
	file.Carried = file.Carried || !imageIsCertain(p) || !p.Known.Has(FieldStart) || !settled(x.Ctime, started)
	return file, nil
}

// startedAfter reports whether a process is known to have started after a time, in boot ns.
func startedAfter(p *Process, since uint64) bool {
	return p.Known.Has(FieldStart) && p.Start >= since
}

// executes reports whether a process lives and executes a file of that device and inode, which the
// ctime may have changed of: so its file system is mounted.
func executes(p *Process, id fileID) bool {
	fd, err := openExe(p)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	is, _, err := identify(fd)
	return err == nil && is.inode == id.inode && is.device == id.device
}

// imageIsCertain reports whether p.Executable is of the last EXEC of p, or of the process that p
// inherited its image from. It is carried from then on because the attributes of a file change
// unseen; the arguments are carried only if an EXEC may have been missed.
func imageIsCertain(p *Process) bool {
	certain := p.Known &^ p.Carried
	return certain.Has(FieldExecutable) || certain.Has(FieldCmdline)
}

// settled reports whether a change of a file at that time or later, in ns since 1970, sets another
// ctime. The kernel has it from a clock of 1 to 10 ms; some file systems store whole seconds, or
// two.
func settled(ctime, at int64) bool {
	if ctime%1e9 == 0 {
		return at-ctime > 3e9
	}
	return at-ctime > 20e6
}

// fileSystems are those whose files are read, and whether each change of contents sets the ctime.
var fileSystems = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:      true, // of ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:       true,
	unix.BTRFS_SUPER_MAGIC:     true,
	unix.F2FS_SUPER_MAGIC:      true,
	unix.EROFS_SUPER_MAGIC_V1:  true,
	unix.SQUASHFS_MAGIC:        true,
	unix.TMPFS_MAGIC:           false, // not what is written to a mapping
	unix.RAMFS_MAGIC:           false,
	unix.HUGETLBFS_MAGIC:       false,
	unix.OVERLAYFS_SUPER_MAGIC: false, // on any other
	unix.ISOFS_SUPER_MAGIC:     false,
	unix.MSDOS_SUPER_MAGIC:     false,
	unix.EXFAT_SUPER_MAGIC:     false,
	0x2fc12fc1:                 false, // ZFS
	0xca451a4e:                 false, // bcachefs
}

// find looks for a file where the process has it, and where its path leads.
func (f *Files) find(p *Process, id fileID) (File, error) {
	fd, err := openExe(p)
	if err == nil {
		var file File
		if file, err = f.load(fd, id, p.Known.Has(FieldStart)); err == nil {
			return file, nil
		}
	}
	if !errors.Is(err, ErrFileGone) || !p.Known.Has(FieldFilename) || p.Truncated.Has(FieldFilename) || !filepath.IsAbs(p.Filename) {
		return File{}, err
	}
	fd, pathErr := openCached(p.Filename)
	if pathErr != nil {
		return File{}, err
	}
	file, err := f.load(fd, id, false)
	if err != nil {
		return File{}, err
	}
	known, ok := f.lookup(id)
	file.Carried = file.Carried || !ok || !startedAfter(p, known.since)
	return file, nil
}

// openCached opens a path with O_PATH, if the kernel knows where it leads. A process can have any
// path in a root directory of its own: where this one's is must not be asked of a server, or
// mounted. It fails before Linux 5.12.
func openCached(path string) (fd int, err error) {
	const cached = 0x20 // RESOLVE_CACHED, linux/openat2.h
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | cached}
	for range 3 { // a rename anywhere can make it fail
		if fd, err = unix.Openat2(unix.AT_FDCWD, path, &how); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// openExe opens the file that a process executes now, with O_PATH.
func openExe(p *Process) (int, error) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(int(p.PID)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, ErrFileGone
	}
	defer unix.Close(dir)
	if p.Known.Has(FieldStart) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/stat", dir))
		st, ok := proctext.ParseStat(text)
		if err != nil || !ok || st.Start/engine.ProcStartUnit != p.Start/engine.ProcStartUnit {
			return -1, ErrFileGone
		}
	}
	fd, err := unix.Openat(dir, "exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return -1, ErrFileGone
	case err != nil:
		return -1, fmt.Errorf("open /proc/%d/exe: %w", p.PID, err)
	}
	return fd, nil
}

// load returns what a file is, if it is the wanted one, and closes its descriptor, which is of
// O_PATH. What the process executes now may have another ctime, such as that of its removal, or
// another device: with some file systems stat(2) does not tell the inode's.
func (f *Files) load(fd int, id fileID, ofProcess bool) (File, error) {
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return File{}, fmt.Errorf("find its file system: %w", err)
	}
	always, local := fileSystems[uint32(fs.Type)]
	if !local {
		return File{}, ErrFileRemote
	}
	begin := time.Now().UnixNano()
	is, size, err := identify(fd)
	switch {
	case err != nil:
		return File{}, err
	case is.inode != id.inode, is.device != id.device && (is.ctime != id.ctime || !ofProcess):
		return File{}, ErrFileGone
	case is.ctime != id.ctime && !ofProcess:
		return File{}, ErrFileChanged
	}
	known, ok := f.lookup(is)
	file := known.File
	if !ok {
		f.watch(fd, is.device)
		if file, err = readFile(fd, is, size, f.maxSize()); err != nil {
			return File{}, err
		}
		if file.Carried = !always; settled(is.ctime, begin) {
			f.remember(is, file)
		}
	}
	file.Carried = file.Carried || is != id
	return file, nil
}

// identify returns what stat(2) says of an open file.
func identify(fd int) (id fileID, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return id, 0, fmt.Errorf("find its inode: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return id, 0, ErrFileGone
	}
	return fileID{uint32(st.Dev), st.Ino, st.Ctim.Nano()}, st.Size, nil
}

// readFile reads a file if it is and stays the one with that id and size.
func readFile(fd int, id fileID, size, limit int64) (file File, err error) {
	// It does not wait for the holder of a lease.
	r, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return file, fmt.Errorf("open it: %w", err)
	}
	defer r.Close()
	var caps [64]byte
	switch n, err := unix.Fgetxattr(int(r.Fd()), "security.capability", caps[:]); {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
	case err != nil:
		return file, fmt.Errorf("read its capabilities: %w", err)
	default:
		if file.Caps, file.HasCaps = parseFileCaps(caps[:n]); !file.HasCaps {
			return file, fmt.Errorf("read its capabilities: %q makes no sense", caps[:n])
		}
	}
	if file.TooLarge = size > limit; !file.TooLarge {
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(r, size+1))
		if err != nil {
			return file, err
		}
		if n != size {
			return file, ErrFileChanged
		}
		h.Sum(file.SHA256[:0])
	}
	if again, now, err := identify(fd); err != nil || again != id || now != size {
		return file, ErrFileChanged
	}
	return file, nil
}

// maxSize is how large files may be that are read.
func (f *Files) maxSize() int64 {
	if f.MaxSize > 0 {
		return f.MaxSize
	}
	return 128 << 20
}
