package cnproc

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// dial opens a socket that is a member of the connector's multicast group. It returns a duplicate
// of the descriptor that the Go runtime does not poll, so that messages do not wake the runtime.
func dial(o *Options) (fd int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_CONNECTOR, &netlink.Config{Groups: cnIdxProc, MessageBufferSize: 4096})
	switch {
	case errors.Is(err, unix.EPERM):
		return -1, fmt.Errorf("join the proc connector's group, which wants CAP_NET_ADMIN before Linux 6.6: %w", err)
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return -1, fmt.Errorf("open a connector socket: this kernel has no CONFIG_CONNECTOR: %w", err)
	case err != nil:
		return -1, fmt.Errorf("open a connector socket: %w", err)
	}
	defer conn.Close()
	if fd, err = duplicate(conn); err != nil {
		return -1, err
	}
	// At least the default size until the request is answered: on a busy system the answer
	// would not fit into a smaller buffer. Open sets the wanted size afterwards.
	if err := setReceiveBuffer(fd, max(o.ReceiveBuffer, defaultReceiveBuffer)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// duplicate returns a duplicate of a socket's descriptor.
func duplicate(conn *netlink.Conn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("reach a netlink socket's descriptor: %w", err)
	}
	var inner error
	if err := raw.Control(func(s uintptr) {
		fd, inner = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		return -1, fmt.Errorf("reach a netlink socket's descriptor: %w", err)
	}
	if inner != nil {
		return -1, fmt.Errorf("duplicate a netlink socket's descriptor: %w", inner)
	}
	return fd, nil
}

func setReceiveBuffer(fd, size int) error {
	// The kernel doubles the size to allow for its overhead.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size/2) == nil {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size/2); err != nil {
		return fmt.Errorf("set the receive buffer to %d bytes: %w", size, err)
	}
	return nil
}

// send sends one request to the connector. The kernel performs it before sendto returns.
func send(fd int, payload []byte) error {
	m := netlink.Message{
		Header: netlink.Header{Length: uint32(sizeNlmsghdr + len(payload)), Type: netlink.Done},
		Data:   payload,
	}
	b, err := m.MarshalBinary()
	if err != nil {
		return err
	}
	for {
		err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ackWait is how long an acknowledgement is waited for once the socket was empty. The kernel sends
// it within the request, so that it is behind what the socket held before.
const ackWait = 2 * time.Second

var (
	errNoAck   = errors.New("no acknowledgement")
	errLostAck = errors.New("no acknowledgement: the socket dropped messages")
)

// await waits for the acknowledgement of the request with the given token. Messages before it are
// dropped: they are from before the source was open. Later messages of the same batch stay in
// the batch.
func await(fd int, b *batch, token uint32, wait time.Duration) error {
	var deadline time.Time // zero until the socket was empty
	dropped := false
	pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		switch errno := b.receive(fd); errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.ENOBUFS:
			dropped = true
			continue
		case unix.EAGAIN:
			if dropped {
				return errLostAck
			}
			if deadline.IsZero() {
				deadline = time.Now().Add(wait)
			}
			left := time.Until(deadline)
			if left <= 0 {
				return errNoAck
			}
			if _, err := unix.Poll(pfd, int(left/time.Millisecond)+1); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait: %w", err)
			}
			continue
		default:
			return fmt.Errorf("receive: %w", errno)
		}
		var m message
		for b.next < b.n {
			data, genuine := b.message(b.next)
			b.next++
			if !genuine || m.decode(data) != nil || m.what != whatAck || m.ackAck != token+1 {
				continue
			}
			if m.ackErr != 0 {
				return unix.Errno(m.ackErr)
			}
			return nil
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return errNoAck
		}
	}
}

// maxAsked is how often a request is repeated whose acknowledgement was dropped.
const maxAsked = 10

// listen subscribes to messages and reports whether the kernel filters them.
func listen(fd int, b *batch, want What) (filtered bool, err error) {
	token := uint32(os.Getpid())<<8 ^ uint32(time.Now().UnixNano())
	for asked := 1; ; asked++ {
		err := send(fd, request(token, opListen, false, 0))
		if errors.Is(err, unix.ECONNREFUSED) {
			return false, fmt.Errorf("ask the proc connector for events: it is in the initial network namespace alone (a container with --net=host), and needs CONFIG_PROC_EVENTS: %w", err)
		}
		if err != nil {
			return false, fmt.Errorf("ask the proc connector for events: %w", err)
		}
		err = await(fd, b, token, ackWait)
		if !errors.Is(err, errLostAck) || asked == maxAsked {
			break
		}
		// Before Linux 6.6 the kernel counts requests.
		if err := send(fd, request(0, opIgnore, false, 0)); err != nil {
			return false, fmt.Errorf("end a subscription to the proc connector: %w", err)
		}
		token++
	}
	switch {
	case errors.Is(err, errNoAck):
		return false, fmt.Errorf("wait for the proc connector to answer: %w: the kernel needs CONFIG_PROC_EVENTS, and "+
			"answers in the initial pid and user namespace alone (a container with --pid=host)", err)
	case errors.Is(err, unix.EPERM):
		return false, fmt.Errorf("ask the proc connector for events, which wants CAP_NET_ADMIN in the initial user namespace: %w", err)
	case err != nil:
		return false, fmt.Errorf("ask the proc connector for events: %w", err)
	}
	if want == allKinds {
		return false, nil
	}
	// A request with a filter for all kinds shows whether the kernel knows filters: it is
	// ignored before Linux 6.6. A narrower filter would hide its own acknowledgement.
	token++
	if err := send(fd, request(token, opListen, true, 0)); err != nil {
		return false, nil
	}
	if err := await(fd, b, token, filterWait); err != nil {
		return false, nil
	}
	if err := send(fd, request(token+1, opListen, true, want)); err != nil {
		return false, fmt.Errorf("set the proc connector's filter: %w", err)
	}
	return true, nil
}

// filterWait is the time limit for the acknowledgement of a filter.
const filterWait = 50 * time.Millisecond

// drops returns the number of messages that the kernel dropped at the socket.
func drops(fd int) uint32 {
	// struct sock_meminfo as an array; SK_MEMINFO_DROPS is its index 8.
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	// It can't fail with these arguments, and does not block.
	unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return info[8]
}

// batchSize is the largest number of messages that one system call receives.
const batchSize = 128

// batch is the reusable storage for a call of recvmmsg(2).
type batch struct {
	hdrs  []mmsghdr
	names []unix.RawSockaddrNetlink
	data  []byte
	size  int // room for a message
	n     int // messages received
	next  int // index of the first message that was not handled
}

// mmsghdr is struct mmsghdr on 64-bit machines.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// newBatch returns a batch for n messages of at most size bytes.
func newBatch(n, size int) *batch {
	b := &batch{hdrs: make([]mmsghdr, n), names: make([]unix.RawSockaddrNetlink, n), data: make([]byte, n*size), size: size}
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

// receive adds messages of the socket to the batch, without blocking.
func (b *batch) receive(fd int) unix.Errno {
	if b.next == b.n {
		b.n, b.next = 0, 0
	}
	free := b.hdrs[b.n:]
	if len(free) == 0 {
		return 0
	}
	for i := range free {
		free[i].hdr.Namelen = unix.SizeofSockaddrNetlink // recvmmsg changes it
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&free[0])),
		uintptr(len(free)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	b.n += int(n)
	return 0
}

// message returns the bytes of message i; genuine reports whether it is complete and from the
// kernel. A privileged process can send to any netlink socket, but never from port 0, the
// kernel's.
func (b *batch) message(i int) (data []byte, genuine bool) {
	h := &b.hdrs[i]
	n := min(int(h.len), b.size)
	name := &b.names[i]
	genuine = h.hdr.Namelen >= unix.SizeofSockaddrNetlink && name.Family == unix.AF_NETLINK && name.Pid == 0
	return b.data[i*b.size:][:n], genuine && h.hdr.Flags&unix.MSG_TRUNC == 0
}
