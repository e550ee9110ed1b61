package cnproc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchSize is the largest number of messages that one system call receives.
const batchSize = 128

// batch is the reusable storage for a call of recvmmsg(2).
type batch struct {
	hdrs  [batchSize]mmsghdr
	iovs  [batchSize]unix.Iovec
	names [batchSize]unix.RawSockaddrNetlink
	data  [batchSize][sizeMaxRecord]byte
	n     int // messages received
	next  int // index of the first message that was not handled
}

// mmsghdr is struct mmsghdr on 64-bit machines.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

func newBatch() *batch {
	b := new(batch)
	for i := range b.hdrs {
		b.iovs[i].Base = &b.data[i][0]
		b.iovs[i].SetLen(sizeMaxRecord)
		h := &b.hdrs[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Iov = &b.iovs[i]
		h.SetIovlen(1)
	}
	return b
}

// receive fills the batch from the socket without blocking.
func (b *batch) receive(fd int) unix.Errno {
	for i := range b.hdrs {
		b.hdrs[i].hdr.Namelen = unix.SizeofSockaddrNetlink // recvmmsg changes it
	}
	b.n, b.next = 0, 0
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.hdrs[0])),
		batchSize, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	b.n = int(n)
	return 0
}

// message returns the bytes of message i; genuine reports whether it is complete and from the
// kernel. A privileged process can send to any netlink socket, but never from port 0, the
// kernel's.
func (b *batch) message(i int) (data []byte, genuine bool) {
	h := &b.hdrs[i]
	n := min(h.len, sizeMaxRecord)
	name := &b.names[i]
	genuine = h.hdr.Namelen >= unix.SizeofSockaddrNetlink && name.Family == unix.AF_NETLINK && name.Pid == 0
	return b.data[i][:n], genuine && h.hdr.Flags&unix.MSG_TRUNC == 0
}
