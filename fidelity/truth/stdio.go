package truth

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Closed is the text of a closed standard stream.
const Closed = "closed  0:0 0"

// StreamOf returns the text of an open file as a standard stream, "" if its type is unknown.
func StreamOf(fd int) string {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &fs) != nil {
		return ""
	}
	what, family := "other", ""
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		what = "file"
		if link, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); strings.HasPrefix(PathOf(link), "memfd:") {
			what = "memfd"
		} else if fs.Type == unix.PID_FS_MAGIC {
			what = "other"
		}
	case unix.S_IFIFO:
		what = "pipe"
	case unix.S_IFSOCK:
		if fs.Type != unix.SOCKFS_MAGIC {
			break // a name of a socket
		}
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		what, family = "socket", map[int]string{unix.AF_UNIX: "unix", unix.AF_INET: "inet", unix.AF_INET6: "inet6", unix.AF_NETLINK: "netlink"}[domain]
		if err != nil || family == "" {
			return ""
		}
	case unix.S_IFCHR:
		if st.Rdev == unix.Mkdev(1, 3) {
			what = "null"
		} else if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil || err == unix.EIO {
			what = "tty" // EIO: the other side has hung up
		}
	}
	return fmt.Sprintf("%s %s %d:%d %d", what, family, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
}

// stdio returns the text of the standard streams of a process, "" if they are unknown. The name is
// a pid or "self".
func stdio(name string) string {
	pid, err := strconv.Atoi(name)
	if err != nil {
		pid = os.Getpid()
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(process)
	var all []string
	for n := range 3 {
		text := Closed
		if fd, err := unix.PidfdGetfd(process, n, 0); err == nil {
			text = StreamOf(fd)
			unix.Close(fd)
		} else if err != unix.EBADF {
			return ""
		}
		if text == "" {
			return ""
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}
