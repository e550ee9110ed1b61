package auditrule

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A status that another process sends is not an answer.
func TestForgedAnswer(t *testing.T) {
	c, err := Open()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	to, err := unix.Getsockname(c.fd)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	m := make([]byte, unix.SizeofNlMsghdr+32)
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], messageGet)
	if err := unix.Sendto(fd, m, 0, to); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EPERM) {
		t.Errorf("another process can send to the socket: error %v", err)
	}
	if st, ok, err := c.Answer(); ok || err != nil {
		t.Errorf("got answer %+v, error %v", st, err)
	}
}

// The kernel answers each request of a connection.
func TestExchange(t *testing.T) {
	c, err := Open()
	if err == nil {
		defer c.Close()
		_, err = c.Status()
	}
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ECONNREFUSED) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rules(); err != nil {
		t.Error(err)
	}
	r := Rule{List: ListExit, Action: Never, Fields: []Field{{Field: FieldKey, Text: "no such rule"}}}
	if err := c.Delete(r.Bytes()); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		t.Errorf("a missing rule: got error %v", err)
	}
	if _, err := c.Status(); err != nil {
		t.Error(err)
	}
}
