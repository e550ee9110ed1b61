package cnproc

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
)

// dial opens a socket and joins the connector's multicast group. The buffer has at least the
// default size until the request is answered, because on a busy system the answer would not fit
// into a smaller buffer.
func dial(o *Options) (fd int, err error) {
	fd, err = nlsocket.Open(unix.NETLINK_CONNECTOR, cnIdxProc, max(o.ReceiveBuffer, defaultReceiveBuffer))
	switch {
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("join the proc connector's group: needs CAP_NET_ADMIN before Linux 6.6: %w", err)
	case errors.Is(err, unix.EPROTONOSUPPORT):
		err = fmt.Errorf("open a connector socket: this kernel has no CONFIG_CONNECTOR: %w", err)
	case err != nil:
		err = fmt.Errorf("open a connector socket: %w", err)
	}
	return fd, err
}

// send sends one request to the connector. The kernel performs it before sendto returns.
func send(fd int, request []byte) error {
	for {
		err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

var (
	errNoAck   = errors.New("no acknowledgement")
	errLostAck = errors.New("no acknowledgement: the socket dropped messages")
)

// await reads the acknowledgement of the request with the given token. The kernel sends the
// acknowledgement during the request, so it follows earlier messages in the socket. await drops
// those, because they precede the opening. Later messages of the batch stay in the batch.
func await(fd int, b *nlsocket.Batch, token uint32) error {
	for dropped := false; ; {
		switch errno := b.Receive(fd); {
		case errno == unix.ENOBUFS:
			dropped = true
		case errno == unix.EAGAIN && dropped:
			return errLostAck
		case errno == unix.EAGAIN:
			return errNoAck
		case errno != 0 && errno != unix.EINTR:
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
	}
}

// maxAsked limits the repetitions of a request. A request is repeated if its answer was dropped or,
// where the kernel counts requests, if no answer came: other programs may have ended too many
// subscriptions, see silence.
const maxAsked = 64

// listen subscribes to messages.
func listen(fd int, b *nlsocket.Batch) (err error) {
	token := uint32(os.Getpid())<<8 ^ uint32(time.Now().UnixNano())
	for range maxAsked {
		token++
		if err = send(fd, request(token, opListen)); err != nil {
			break
		}
		err = await(fd, b, token)
		if errors.Is(err, errLostAck) {
			send(fd, request(0, opIgnore)) // the request is counted
		} else if !errors.Is(err, errNoAck) || !countsRequests() {
			break
		}
	}
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("ask the proc connector for events: needs the initial network namespace (a container with --net=host) and CONFIG_PROC_EVENTS: %w", err)
	case errors.Is(err, errNoAck):
		return fmt.Errorf("wait for the proc connector to answer: %w: the kernel needs CONFIG_PROC_EVENTS, and "+
			"answers in the initial pid and user namespace alone (a container with --pid=host)", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("ask the proc connector for events: needs CAP_NET_ADMIN in the initial user namespace before Linux 6.12: %w", err)
	case err != nil:
		return fmt.Errorf("ask the proc connector for events: %w", err)
	}
	return nil
}

// batchSize is the largest number of messages that one system call receives.
const batchSize = 128
