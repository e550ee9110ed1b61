package procfs

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

const suffixDeleted = " (deleted)"

func deleted(path []byte) bool { return bytes.HasSuffix(path, []byte(suffixDeleted)) }

// readExe reads the link exe of dir and the stat(2) of its file, as far as they are wanted.
func (r *reader) readExe(dir int, want engine.Fields, ev *engine.RawEvent) {
	n := 0
	if want.Has(engine.FieldExe) {
		n = r.readLink(dir, pathExe)
	}
	st, errno := statx(dir, pathExe, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID)
	if errno != 0 {
		return
	}
	if want.Has(engine.FieldExeFile) && st.Mask&unix.STATX_BASIC_STATS == unix.STATX_BASIC_STATS {
		ev.Task.Known |= engine.FieldExeFile.Set()
		ev.Task.ExeFile = engine.ExeFile{
			Inode: st.Ino, Ctime: st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec), Device: uint32(unix.Mkdev(st.Dev_major, st.Dev_minor)),
			UID: st.Uid, GID: st.Gid, Mode: st.Mode, Removed: st.Nlink == 0,
		}
	}
	r.setPath(dir, n, &st, engine.FieldExe, ev)
}

// readCwd reads the link cwd of dir.
func (r *reader) readCwd(dir int, ev *engine.RawEvent) {
	n := r.readLink(dir, pathCwd)
	if n == 0 {
		return
	}
	if st, errno := statx(dir, pathCwd, unix.STATX_MNT_ID|unix.STATX_INO|unix.STATX_NLINK); errno == 0 {
		r.setPath(dir, n, &st, engine.FieldCwd, ev)
	}
}

// readLink reads a link into r.buf and returns its length, or 0 if it cannot be read.
func (r *reader) readLink(dir int, linkNUL []byte) int {
	// The kernel assembles the path in one page, and refuses a longer one with ENAMETOOLONG: a
	// path is never cut.
	n, errno := readlinkat(dir, linkNUL, r.buf[:maxLink])
	if errno != 0 || n == maxLink {
		return 0
	}
	return n
}

// setPath sets field f of ev to the path of n bytes in r.buf. The path is the text of a link of
// dir, and st is the linked file. The kernel appends " (deleted)" to the path of a removed file,
// and of a memfd, which never had a name. These words can also be part of a name. So the path of a
// file that has other names is unknown.
func (r *reader) setPath(dir, n int, st *unix.Statx_t, f engine.Field, ev *engine.RawEvent) {
	if n == 0 {
		return
	}
	at, removed := placeIn(st), deleted(r.buf[:n])
	if name, ok := bytes.CutPrefix(r.buf[:n], []byte(prefixMemfd)); ok && removed && r.memfds != 0 && at.device == r.memfds {
		name = name[:len(name)-len(suffixDeleted)]
		copy(ev.Grow(f, len("memfd:")+len(name)), r.buf[1:len(prefixMemfd)+len(name)])
		return
	}
	// An ending process releases its directory, then its mounts. A path read meanwhile may
	// begin at a detached mount, unless the process still has its directory.
	if n = r.fromRoot(n); n == 0 || removed && st.Nlink != 0 || !r.attached(dir, at.mount, f) {
		return
	}
	path := r.buf[:n]
	if removed {
		path = bytes.TrimSuffix(path, []byte(suffixDeleted)) // a removed root is just /
	}
	if path[0] == '/' { // else it is a link of another kind, or out of reach
		ev.Set(f, path)
	}
}

// readRoot reads the place of the root directory of the process of dir.
func (r *reader) readRoot(dir int) {
	r.root = r.rootBuf[:0]
	at, errno := placeOf(dir, pathRoot)
	own := r.ownRoot
	if own == (place{}) {
		own, _ = placeOf(r.proc, pathOwnRoot)
	}
	switch r.rootAt = at; {
	case errno != 0:
	case at.mount != 0 && at == own: // faster than reading the link
		r.root = append(r.root, '/')
	default:
		if n, errno := readlinkat(dir, pathRoot, r.rootBuf); errno == 0 && n < maxLink {
			r.root = r.rootBuf[:n]
		}
		if string(r.root) == "/" && r.outside(dir, own) {
			r.root = r.root[:0]
		}
	}
}

// outside reports whether the root of the process of dir is unreachable from this process's root:
// the link root of dir reads like this process's root, but leads to another directory. Then a path
// can begin at either of the two. In another mount namespace all paths begin at the process's own
// root. If this process has changed its root, paths are relative to the first one.
func (r *reader) outside(dir int, own place) bool {
	if r.rootAt == own || r.rootAt == r.firstRoot {
		return false
	}
	its, errno := placeOf(dir, pathMountNS)
	ours, ownErrno := placeOf(r.proc, pathOwnMountNS)
	return errno != 0 || ownErrno != 0 || its == ours
}

// rootIsSame reports whether the process of dir still has the root directory that readRoot found.
// Only then a path read meanwhile is relative to that root: a process can change its root and its
// directory.
func (r *reader) rootIsSame(dir int) bool {
	at, errno := placeOf(dir, pathRoot)
	return errno == 0 && at == r.rootAt
}

// fromRoot converts the path of n bytes in r.buf. The path begins at this process's root, and the
// result at the root of the process that is read, as in the kernel's events. fromRoot returns the
// new length, or 0 if the path does not go through that root.
func (r *reader) fromRoot(n int) int {
	switch string(r.root) {
	case "":
		return 0
	case "/":
		return n
	}
	rest, below := bytes.CutPrefix(r.buf[:n], r.root)
	if below && len(rest) == 0 {
		rest = r.root[:1] // the root itself
	}
	if !below || rest[0] != '/' {
		return 0
	}
	return copy(r.buf, rest)
}

const prefixMemfd = "/memfd:"

// maxLink is more than PATH_MAX, the limit of the kernel with pages of 4 KiB.
const maxLink = 8 << 10

// memfdDevice returns the device of all memfds of this kernel, or 0 if it is unknown.
func memfdDevice() uint64 {
	fd, err := unix.MemfdCreate("", unix.MFD_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Dev
}
