// Package kernelsocket opens netlink sockets for requests to the kernel, which nobody but the
// kernel can answer.
//
// The answers of netlink are told by a number and by the port that they are for, and a process can
// send what has both: with CAP_NET_ADMIN to any socket of its network namespace, and without any
// privilege to one of generic netlink. To a socket that is connected to port 0, the kernel's, other
// processes can't send: they get ECONNREFUSED.
package kernelsocket

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Dial opens a socket of a netlink protocol, unix.NETLINK_AUDIT for example, that is connected to
// the kernel.
func Dial(protocol int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(protocol, nil)
	if err != nil {
		return nil, err
	}
	if err := connect(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("connect a netlink socket to the kernel: %w", err), conn.Close())
	}
	return conn, nil
}

func connect(conn *netlink.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.Connect(int(fd), &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}); err != nil {
		return err
	}
	return failed
}

// Forge sends a message to a socket, as another process can that has no privilege for it, and
// returns the error. It is for tests.
func Forge(conn *netlink.Conn, protocol int, message []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var to unix.Sockaddr
	var failed error
	if err := raw.Control(func(fd uintptr) { to, failed = unix.Getsockname(int(fd)) }); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, message, 0, to)
}
