package nlsocket

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Open opens a socket of a netlink protocol that is a member of multicast groups. buffer is the
// size of its receive buffer in bytes. The descriptor is a duplicate that the Go runtime does not
// poll, so messages do not wake the runtime.
func Open(protocol int, groups uint32, buffer int) (fd int, err error) {
	conn, err := netlink.Dial(protocol, &netlink.Config{Groups: groups, MessageBufferSize: os.Getpagesize()})
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	if control := raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 3) }); control != nil {
		err = control
	}
	if err == nil {
		err = SetReceiveBuffer(fd, buffer)
	}
	if err != nil && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	return fd, err
}

// SetReceiveBuffer sets the size of the receive buffer in bytes, including the kernel's overhead.
// Without CAP_NET_ADMIN the kernel limits it to /proc/sys/net/core/rmem_max.
func SetReceiveBuffer(fd, size int) error {
	// The kernel doubles the size to allow for its overhead.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size/2) == nil {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size/2); err != nil {
		return fmt.Errorf("set the receive buffer to %d bytes: %w", size, err)
	}
	return nil
}

// Drops returns the number of messages that the kernel dropped at the socket.
func Drops(fd int) uint32 {
	// info is struct sock_meminfo as an array. SK_MEMINFO_DROPS is index 8.
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	// The call cannot fail with these arguments, and does not block.
	unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return info[8]
}

// Batch is the reusable memory for a call of recvmmsg(2).
type Batch struct {
	hdrs  []mmsghdr
	names []unix.RawSockaddrNetlink
	data  []byte
	size  int // room for a message
	N     int // messages received
	Next  int // index of the first unhandled message
}

// mmsghdr is struct mmsghdr on 64-bit machines.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// NewBatch returns a batch for n messages of at most size bytes.
func NewBatch(n, size int) *Batch {
	b := &Batch{hdrs: make([]mmsghdr, n), names: make([]unix.RawSockaddrNetlink, n), data: make([]byte, n*size), size: size}
	iovs := make([]unix.Iovec, n)
	for i := range b.hdrs {
		iovs[i].Base = &b.data[i*size]
		iovs[i].SetLen(size)
		h := &b.hdrs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Iov = &iovs[i]
		h.SetIovlen(1)
	}
	return b
}

// Receive adds queued messages of the socket to the batch, without blocking.
func (b *Batch) Receive(fd int) unix.Errno {
	if b.Next == b.N {
		b.N, b.Next = 0, 0
	}
	free := b.hdrs[b.N:]
	if len(free) == 0 {
		return 0
	}
	for i := range free {
		free[i].hdr.Namelen = unix.SizeofSockaddrNetlink // recvmmsg changes this field
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&free[0])),
		uintptr(len(free)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	b.N += int(n)
	return 0
}

// Message returns the bytes of message i. genuine reports whether the message is complete and from
// the kernel. A privileged process can send to any netlink socket, but never from port 0, which is
// the kernel's.
func (b *Batch) Message(i int) (data []byte, genuine bool) {
	h := &b.hdrs[i]
	n := min(int(h.len), b.size)
	name := &b.names[i]
	genuine = h.hdr.Namelen >= unix.SizeofSockaddrNetlink && name.Family == unix.AF_NETLINK && name.Pid == 0
	return b.data[i*b.size:][:n], genuine && h.hdr.Flags&unix.MSG_TRUNC == 0
}

// Fill adds a message as if the kernel had sent it. It is for tests.
func (b *Batch) Fill(message []byte) {
	h := &b.hdrs[b.N]
	h.len, h.hdr.Namelen = uint32(copy(b.data[b.N*b.size:][:b.size], message)), unix.SizeofSockaddrNetlink
	b.names[b.N] = unix.RawSockaddrNetlink{Family: unix.AF_NETLINK}
	b.N++
}
