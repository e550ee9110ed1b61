package auditrule

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/kernelsocket"
)

// Messages to the kernel, of linux/audit.h.
const (
	messageGet  = 1000
	messageSet  = 1001
	messageAdd  = 1011
	messageDel  = 1012
	messageList = 1013

	setEnabled = 1 // in the mask of messageSet
)

// Status is the status of audit.
type Status struct {
	Enabled uint32 // Off, On or Locked
	PID     uint32 // of the process that the kernel sends records to, 0 for none: auditd's
	Lost    uint32 // records since the boot that were not made, or that auditd did not get
}

// The values of Status.Enabled. What is locked can't be changed until the next boot.
const (
	Off    = 0
	On     = 1
	Locked = 2
)

// Control is a connection to the kernel's audit. It needs CAP_AUDIT_CONTROL, and the initial user
// and pid namespace, for each call.
type Control struct{ conn *netlink.Conn }

// patience bounds the wait for an answer, which a thread of the kernel gives.
const patience = 10 * time.Second

// Open connects. Nothing is asked yet, so that it needs no privilege.
func Open() (*Control, error) {
	conn, err := kernelsocket.Dial(unix.NETLINK_AUDIT)
	if err != nil {
		return nil, fmt.Errorf("open an audit socket: %w", err)
	}
	return &Control{conn}, nil
}

// Close closes the connection.
func (c *Control) Close() error { return c.conn.Close() }

// Status asks for the status.
func (c *Control) Status() (Status, error) {
	if err := c.Ask(); err != nil {
		return Status{}, err
	}
	c.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		messages, err := c.conn.Receive()
		if err != nil {
			return Status{}, fmt.Errorf("ask for the status of audit: %w", err)
		}
		for _, m := range messages {
			if st, ok := parseStatus(uint16(m.Header.Type), m.Data); ok {
				return st, nil
			}
		}
	}
}

// Ask asks for the status, and does not wait for the answer, which Answer returns.
func (c *Control) Ask() error {
	_, err := c.conn.Send(netlink.Message{Header: netlink.Header{Type: messageGet, Flags: netlink.Request}})
	if err != nil {
		return fmt.Errorf("ask for the status of audit: %w", err)
	}
	return nil
}

// Answer returns the answer to Ask, if it has come. It does not wait. The error says that there
// will be none.
func (c *Control) Answer() (st Status, ok bool, err error) {
	raw, err := c.conn.SyscallConn()
	if err != nil {
		return Status{}, false, err
	}
	var b [256]byte
	var n int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		n, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_DONTWAIT)
	}); err != nil {
		return Status{}, false, err
	}
	if failed == unix.EAGAIN || failed == unix.EINTR {
		return Status{}, false, nil
	}
	if failed != nil || n < unix.SizeofNlMsghdr {
		return Status{}, false, fmt.Errorf("receive the status of audit: %w", failed)
	}
	kind := binary.NativeEndian.Uint16(b[4:])
	if kind == unix.NLMSG_ERROR && n >= unix.SizeofNlMsghdr+4 {
		errno := -int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))
		return Status{}, false, fmt.Errorf("ask for the status of audit: %w", unix.Errno(errno))
	}
	st, ok = parseStatus(kind, b[unix.SizeofNlMsghdr:n])
	return st, ok, nil
}

// parseStatus takes a struct audit_status, of which newer kernels have more at the end.
func parseStatus(kind uint16, b []byte) (st Status, ok bool) {
	if kind != messageGet || len(b) < 28 {
		return Status{}, false
	}
	return Status{
		Enabled: binary.NativeEndian.Uint32(b[4:]), PID: binary.NativeEndian.Uint32(b[12:]), Lost: binary.NativeEndian.Uint32(b[24:]),
	}, true
}

// Enable sets Status.Enabled, and nothing else.
func (c *Control) Enable(value uint32) error {
	b := make([]byte, 32)
	binary.NativeEndian.PutUint32(b, setEnabled)
	binary.NativeEndian.PutUint32(b[4:], value)
	return c.order("set whether audit is enabled", messageSet, b)
}

// Add adds a rule behind the others of its list. The error is unix.EEXIST if it is there.
func (c *Control) Add(rule []byte) error { return c.order("add an audit rule", messageAdd, rule) }

// Delete deletes a rule. The error is unix.ENOENT if it is not there.
func (c *Control) Delete(rule []byte) error {
	return c.order("delete an audit rule", messageDel, rule)
}

func (c *Control) order(what string, kind netlink.HeaderType, data []byte) error {
	c.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := c.conn.Execute(netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge}, Data: data})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Rules returns all rules as the kernel has them.
func (c *Control) Rules() (rules [][]byte, err error) {
	_, err = c.conn.Send(netlink.Message{Header: netlink.Header{Type: messageList, Flags: netlink.Request}})
	if err != nil {
		return nil, fmt.Errorf("list audit rules: %w", err)
	}
	c.conn.SetReadDeadline(time.Now().Add(patience))
	messages, err := c.conn.Receive()
	if err != nil {
		return nil, fmt.Errorf("list audit rules: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type == messageList {
			rules = append(rules, bytes.Clone(m.Data))
		}
	}
	return rules, nil
}
