package procfs

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// mounts has the ids of the mounts of this process's namespace.
type mounts struct {
	fd  int // of /proc/self/mountinfo, not registered anywhere: each poll sees a change once
	ids map[uint64]bool
}

// has reports whether a mount exists now. It reads the ids again after a change.
func (m *mounts) has(id uint64, buf []byte) bool {
	changed := [1]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}
	if n, err := unix.Poll(changed[:], 0); n != 0 || err != nil || len(m.ids) == 0 {
		clear(m.ids)
		if _, err := unix.Seek(m.fd, 0, unix.SEEK_SET); err == nil {
			eachMount(m.fd, buf, func(id uint64) { m.ids[id] = true })
		}
	}
	return m.ids[id]
}

// eachMount visits the ids of the mounts in a mountinfo file: the first number of each line.
func eachMount(fd int, buf []byte, visit func(id uint64)) {
	id, inID := uint64(0), true
	for {
		n, errno := read(fd, buf)
		if errno != 0 || n == 0 {
			return
		}
		for _, c := range buf[:n] {
			switch {
			case c == '\n':
				id, inID = 0, true
			case inID && '0' <= c && c <= '9':
				id = 10*id + uint64(c-'0')
			case inID:
				visit(id)
				inID = false
			}
		}
	}
}

// place is the target of a link: a file in a mount.
type place struct {
	mount  uint64 // its id, 0 before Linux 5.8
	inode  uint64
	device uint64
}

// placeOf returns where a link leads to.
func placeOf(dir int, linkNUL []byte) (place, unix.Errno) {
	st, errno := statx(dir, linkNUL, unix.STATX_MNT_ID|unix.STATX_INO)
	return placeIn(&st), errno
}

func placeIn(st *unix.Statx_t) place {
	return place{st.Mnt_id, st.Ino, unix.Mkdev(st.Dev_major, st.Dev_minor)}
}

// attached reports whether a mount that a link leads to is below the root directory of the process
// of dir. A path in a detached mount looks like any other path.
//
// A process that leaves its mount namespace keeps its executable. If the process has no root of its
// own, the link exe may also lead to a mount of the first process's namespace.
func (r *reader) attached(dir int, id uint64, f engine.Field) bool {
	return id == r.rootAt.mount || r.own.has(id, r.dirs) && r.own.has(r.rootAt.mount, r.dirs) || r.mounted(dir, pathMountinfo, id) ||
		f == engine.FieldExe && string(r.root) == "/" && r.mounted(r.proc, pathFirstMountinfo, id)
}

// mounted reports whether a mountinfo file has a mount.
func (r *reader) mounted(dir int, pathNUL []byte, id uint64) (found bool) {
	fd, errno := openat(dir, pathNUL, unix.O_RDONLY)
	if errno != 0 {
		return false
	}
	eachMount(fd, r.dirs, func(m uint64) { found = found || m == id })
	closeFD(fd)
	return found
}
