package cnproc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
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
	if fd, err = nlsocket.Duplicate(conn); err != nil {
		return -1, err
	}
	// At least the default size until the request is answered: on a busy system the answer
	// would not fit into a smaller buffer. Open sets the wanted size afterwards.
	if err := nlsocket.SetReceiveBuffer(fd, max(o.ReceiveBuffer, defaultReceiveBuffer)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
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

// ackWait is the longest wait for an acknowledgement once the socket was empty. The kernel sends it
// within the request, so that it is behind the earlier messages in the socket.
const ackWait = 2 * time.Second

var (
	errNoAck   = errors.New("no acknowledgement")
	errLostAck = errors.New("no acknowledgement: the socket dropped messages")
)

// await waits for the acknowledgement of the request with the given token. Messages before it are
// dropped: they are from before the source was open. Later messages of the same batch stay in
// the batch.
func await(fd int, b *nlsocket.Batch, token uint32, wait time.Duration) error {
	var deadline time.Time // zero until the socket was empty
	dropped := false
	pfd := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		switch errno := b.Receive(fd); errno {
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
		for b.Next < b.N {
			data, genuine := b.Message(b.Next)
			b.Next++
			if !genuine || m.decode(data) != nil || m.what != whatAck || m.args[1] != token+1 {
				continue
			}
			if m.args[0] != 0 {
				return unix.Errno(m.args[0])
			}
			return nil
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return errNoAck
		}
	}
}

// maxAsked is how often a request is repeated if its acknowledgement was dropped.
const maxAsked = 10

// maxOwed is how often a request without an answer is repeated: other programs may have ended so
// many more subscriptions than they began, see silence.
const maxOwed = 64

// listen subscribes to messages and reports whether the kernel filters them.
func listen(fd int, b *nlsocket.Batch, want What) (filtered bool, err error) {
	token := uint32(os.Getpid())<<8 ^ uint32(time.Now().UnixNano())
	for asked := 1; ; asked++ {
		err = send(fd, request(token, opListen, false, 0))
		if errors.Is(err, unix.ECONNREFUSED) {
			return false, fmt.Errorf("ask the proc connector for events: it is in the initial network namespace alone (a container with --net=host), and needs CONFIG_PROC_EVENTS: %w", err)
		}
		if err != nil {
			return false, fmt.Errorf("ask the proc connector for events: %w", err)
		}
		err = await(fd, b, token, ackWait)
		for owed := 0; errors.Is(err, errNoAck) && countsRequests() && owed < maxOwed; owed++ {
			token++
			if err = send(fd, request(token, opListen, false, 0)); err == nil {
				err = await(fd, b, token, 0)
			}
		}
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
		return false, fmt.Errorf("ask the proc connector for events, which wants CAP_NET_ADMIN in the initial user namespace before Linux 6.12: %w", err)
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

// batchSize is the largest number of messages that one system call receives.
const batchSize = 128
