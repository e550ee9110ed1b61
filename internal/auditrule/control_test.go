package auditrule

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/kernelsocket"
)

// A status that another process sends is no answer.
func TestForgedAnswer(t *testing.T) {
	c, err := Open()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := make([]byte, unix.SizeofNlMsghdr+32)
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], messageGet)
	if err := kernelsocket.Forge(c.conn, unix.NETLINK_AUDIT, m); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EPERM) {
		t.Errorf("another process can send to it: %v", err)
	}
	if st, ok, err := c.Answer(); ok || err != nil {
		t.Errorf("it has the answer %+v, %v", st, err)
	}
}
