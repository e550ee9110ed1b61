package auditrule

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Messages to the kernel, from linux/audit.h.
const (
	messageGet  = 1000
	messageSet  = 1001
	messageAdd  = 1011
	messageDel  = 1012
	messageList = 1013
)

// Status is the status of audit.
type Status struct {
	Enabled uint32 // Off, On or Locked
	PID     uint32 // process that receives records, normally auditd; 0 for none
	Lost    uint32 // records lost since the boot, for lack of memory or of a reader
}

// Values of Status.Enabled. Locked lasts until the next boot.
const (
	Off    = 0
	On     = 1
	Locked = 2
)

// Control is a connection to the kernel's audit. Each call needs CAP_AUDIT_CONTROL, and the initial
// user and pid namespace.
type Control struct {
	fd  int
	buf []byte
}

const (
	// patience limits the wait for an answer from a kernel thread.
	patience = 10 * time.Second
	// maxMessage exceeds the size of a rule.
	maxMessage = 16 << 10
)

// Open connects to the kernel, without a request, so it needs no privilege. The socket is connected
// to port 0, the kernel's, so other processes cannot send to it.
func Open() (*Control, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		return nil, fmt.Errorf("open an audit socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect an audit socket to the kernel: %w", err)
	}
	return &Control{fd, make([]byte, maxMessage)}, nil
}

// Close closes the connection.
func (c *Control) Close() error { return unix.Close(c.fd) }

// Status requests the status.
func (c *Control) Status() (st Status, err error) {
	err = c.exchange("request the status of audit", messageGet, 0, nil, func(kind uint16, data []byte) (done bool) {
		st, done = parseStatus(kind, data)
		return done
	})
	return st, err
}

// Ask requests the status without waiting. Answer returns the answer.
func (c *Control) Ask() error { return c.send(messageGet, 0, nil) }

// Answer returns the answer to Ask, if it has arrived. After an error there is none.
func (c *Control) Answer() (st Status, ok bool, err error) {
	kind, data, err := c.receive(0)
	if errors.Is(err, unix.EAGAIN) {
		return Status{}, false, nil
	}
	st, ok = parseStatus(kind, data)
	return st, ok, err
}

// parseStatus parses a struct audit_status. Newer kernels append members.
func parseStatus(kind uint16, b []byte) (st Status, ok bool) {
	if kind != messageGet || len(b) < 28 {
		return Status{}, false
	}
	return Status{
		Enabled: binary.NativeEndian.Uint32(b[4:]), PID: binary.NativeEndian.Uint32(b[12:]), Lost: binary.NativeEndian.Uint32(b[24:]),
	}, true
}

// Enable sets only Status.Enabled.
func (c *Control) Enable(value uint32) error {
	b := make([]byte, 32)
	binary.NativeEndian.PutUint32(b, 1) // AUDIT_STATUS_ENABLED, in the mask of members to set
	binary.NativeEndian.PutUint32(b[4:], value)
	return c.order("set whether audit is enabled", messageSet, b)
}

// Add appends a rule to its list. The error is unix.EEXIST if the rule exists.
func (c *Control) Add(rule []byte) error { return c.order("add an audit rule", messageAdd, rule) }

// Delete deletes a rule. The error is unix.ENOENT if the rule does not exist.
func (c *Control) Delete(rule []byte) error {
	return c.order("delete an audit rule", messageDel, rule)
}

func (c *Control) order(what string, kind uint16, data []byte) error {
	return c.exchange(what, kind, unix.NLM_F_ACK, data, func(kind uint16, _ []byte) bool { return kind == unix.NLMSG_ERROR })
}

// Rules returns all rules in the kernel's form.
func (c *Control) Rules() (rules [][]byte, err error) {
	err = c.exchange("list audit rules", messageList, 0, nil, func(kind uint16, data []byte) bool {
		if kind == messageList {
			rules = append(rules, bytes.Clone(data))
		}
		return kind == unix.NLMSG_DONE
	})
	return rules, err
}

// exchange sends a message, and passes the answers to done until it returns true.
func (c *Control) exchange(what string, kind, flags uint16, data []byte, done func(kind uint16, data []byte) bool) error {
	err := c.send(kind, flags, data)
	for over := false; err == nil && !over; {
		var answer []byte
		if kind, answer, err = c.receive(patience); err == nil {
			over = done(kind, answer)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (c *Control) send(kind, flags uint16, data []byte) error {
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(data)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, flags|unix.NLM_F_REQUEST)
	_, err := unix.Write(c.fd, append(append(m, make([]byte, 8)...), data...))
	return err
}

// receive waits for a message. Its data are valid until the next call. It returns the error in an
// error message.
func (c *Control) receive(wait time.Duration) (kind uint16, data []byte, err error) {
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(wait.Milliseconds())); err != nil && err != unix.EINTR {
		return 0, nil, err
	}
	n, _, err := unix.Recvfrom(c.fd, c.buf, unix.MSG_DONTWAIT)
	if err != nil || n < unix.SizeofNlMsghdr {
		return 0, nil, err
	}
	kind, data = binary.NativeEndian.Uint16(c.buf[4:]), c.buf[unix.SizeofNlMsghdr:n]
	if kind == unix.NLMSG_ERROR && len(data) >= 4 {
		if errno := -int32(binary.NativeEndian.Uint32(data)); errno != 0 {
			err = unix.Errno(errno)
		}
	}
	return kind, data, err
}
