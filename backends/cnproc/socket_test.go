package cnproc

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
)

// TestNoAnswer checks the error for a kernel that never answers, for example without process
// events. Route netlink, which ignores connector messages, is such a kernel.
func TestNoAnswer(t *testing.T) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		t.Skipf("needs route netlink: %v", err)
	}
	defer unix.Close(fd)
	if err := listen(fd, nlsocket.NewBatch(batchSize, sizeMaxRecord)); !errors.Is(err, errNoAck) {
		t.Errorf("got error %v, want one about a missing answer", err)
	}
}
