package procfs

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// ExitStatus returns the wait status of process pid, which has ended and was not waited
// for yet, and its start time. It is that of the process, as its parent will get it, from
// Linux 6.1 on; before, the kernel shows that of the leader.
func (r *Reader) ExitStatus(pid uint32) (status int32, start uint64, ok bool) {
	dir, errno := openat(r.proc, r.name("", pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	if errno != 0 {
		return 0, 0, false
	}
	defer closeFD(dir)
	b, ok := r.readFile(dir, pathStat)
	if !ok {
		return 0, 0, false
	}
	s, ok := proctext.ParseStat(b)
	if !ok || s.State != 'Z' || s.Threads > 1 {
		return 0, 0, false
	}
	status, ok = proctext.ParseExitStatus(b)
	if ok && status == 0 {
		// Who may not see it is shown 0. The link exe needs the same privilege.
		_, errno := readlinkat(dir, pathExe, r.buf)
		ok = errno == unix.ENOENT
	}
	return status, s.Start, ok
}
