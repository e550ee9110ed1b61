package nlsocket

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CheckNetwork returns an error if this thread's network namespace receives no records: the kernel
// sends them only to the initial one.
func CheckNetwork() error {
	if !outsideInitial() {
		return nil
	}
	return fmt.Errorf("the kernel sends records only to the initial network namespace, but this process is in another: "+
		"docker run --net=host, hostNetwork: true in Kubernetes, nsenter --target 1 --net: %w", errors.ErrUnsupported)
}

// outsideInitial reports whether this thread is certainly outside the initial network namespace.
// The first process is in the initial one, and the kernel's connector listens only there. The
// kernel sends messages that are not about networks to no other namespace.
func outsideInitial() bool {
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
