package nlsocket

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Elsewhere reports whether this thread is seen to be in another network namespace than the initial
// one, to which alone the kernel sends what is not of networks: that of the first process, and the
// only one in which the kernel's connector listens.
func Elsewhere() bool {
	own, err := os.Readlink("/proc/thread-self/ns/net")
	first, err2 := os.Readlink("/proc/1/ns/net")
	if err == nil && err2 == nil {
		return own != first
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	err = unix.Sendto(fd, make([]byte, unix.SizeofNlMsghdr), unix.MSG_DONTWAIT, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	return errors.Is(err, unix.ECONNREFUSED)
}
