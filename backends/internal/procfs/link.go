package procfs

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

const suffixDeleted = " (deleted)"

func deleted(path []byte) bool { return bytes.HasSuffix(path, []byte(suffixDeleted)) }

// readPath reads the link exe or cwd of dir into field f of ev. It returns false if the process has
// no memory or is gone.
func (r *Reader) readPath(dir int, linkNUL []byte, f engine.Field, ev *engine.RawEvent) (alive bool) {
	// The kernel assembles the path in one page, and refuses a longer one with ENAMETOOLONG: a path
	// is never cut.
	n, errno := readlinkat(dir, linkNUL, r.buf[:maxLink])
	if errno != 0 || n == 0 || n == maxLink {
		return errno != unix.ENOENT && errno != unix.ESRCH
	}
	path := r.buf[:n]
	if deleted(path) && !r.named(dir, linkNUL, n) {
		path = path[:n-len(suffixDeleted)]
		if name, ok := bytes.CutPrefix(path, []byte("/memfd:")); ok {
			copy(ev.Grow(f, len("memfd:")+len(name)), path[1:])
			return true
		}
	}
	if path[0] != '/' {
		return true // not a path: a link of another kind, or out of reach
	}
	ev.Set(f, path)
	return true
}

// maxLink is more than PATH_MAX, the limit of the kernel with pages of 4 KiB.
const maxLink = 8 << 10

// named reports whether the path of n bytes in r.buf, which ends with " (deleted)", is the real
// name of the link's target. The kernel appends the same words to the path of a removed file.
func (r *Reader) named(dir int, linkNUL []byte, n int) bool {
	// The path is relative to the root directory of its process.
	const root = "root"
	p := r.buf[n : n+len(root)+n+1]
	copy(p, root)
	copy(p[len(root):], r.buf[:n])
	p[len(p)-1] = 0
	link, errno := statat(dir, linkNUL)
	if errno != 0 {
		return false
	}
	file, errno := statat(dir, p)
	return errno == 0 && link.Dev == file.Dev && link.Ino == file.Ino
}

// statat follows the link. It is used for the rare paths that end with " (deleted)".
func statat(dir int, pathNUL []byte) (st unix.Stat_t, errno unix.Errno) {
	err := unix.Fstatat(dir, string(pathNUL[:len(pathNUL)-1]), &st, 0)
	if err != nil {
		errno, _ = errors.AsType[unix.Errno](err)
		if errno == 0 {
			errno = unix.EINVAL
		}
	}
	return st, errno
}
