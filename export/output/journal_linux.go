package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/export/internal/spool"
)

// journalSocket is where journald takes entries.
var journalSocket = "/run/systemd/journal/socket"

// journal sends entries by a connected socket, which a change of the root directory leaves as it
// is.
type journal struct {
	program string
	conn    *net.UnixConn
	buffer  []byte
}

func openJournal(program string) (sink, error) {
	j := &journal{program: program}
	return j, j.dial()
}

func (j *journal) dial() error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: journalSocket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("journald: %w (is systemd-journald running?)", err)
	}
	j.conn = conn
	return nil
}

func (j *journal) close() error {
	if j.conn == nil {
		return nil
	}
	return j.conn.Close()
}

func (j *journal) send(ctx context.Context, batch []entry) spool.Outcome {
	return oneByOne(ctx, batch, func(e *entry) error {
		if j.conn == nil {
			if err := j.dial(); err != nil {
				return err
			}
		}
		j.buffer = appendJournal(j.buffer[:0], j.program, e)
		err := within(ctx, j.conn, func() error {
			_, err := j.conn.Write(j.buffer)
			if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENOBUFS) {
				err = j.sendFile()
			}
			return err
		})
		if err != nil {
			j.conn.Close()
			j.conn = nil
			return fmt.Errorf("journald: %w", err)
		}
		return nil
	})
}

// sendFile sends what is too large for a datagram as a sealed file in memory, as the protocol wants
// it.
func (j *journal) sendFile() error {
	fd, err := unix.MemfdCreate("journal-entry", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for rest := j.buffer; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	// WriteMsgUnix refuses connected sockets.
	raw, err := j.conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(socket uintptr) bool {
		sent = unix.Sendmsg(int(socket), nil, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return cmp.Or(err, sent)
}
