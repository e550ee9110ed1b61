package taskrecord

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/internal/kernelsocket"
)

// A socket that has the number of a listener that is gone gets its records, until the kernel
// notices. They are no answers.
func TestProbeAmidRecords(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	cpus, err := PossibleCPUs()
	if err != nil {
		t.Fatal(err)
	}
	amid := 0
	for range 10 {
		first, err := Dial()
		if err != nil {
			t.Fatal(err)
		}
		k, err := Probe(first)
		if err != nil {
			t.Skip(err)
		}
		fd, err := nlsocket.Duplicate(first)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Register(first, fd, nlsocket.NewBatch(1, MaxMessage), cpus, cpus); err != nil {
			t.Fatal(err)
		}
		first.Close()
		unix.Close(fd)
		second, err := Dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
		if fd, err = nlsocket.Duplicate(second); err != nil {
			t.Fatal(err)
		}
		pending := make([]byte, 1)
		if _, _, err := unix.Recvfrom(fd, pending, unix.MSG_PEEK|unix.MSG_DONTWAIT); err == nil {
			amid++
		}
		unix.Close(fd)
		if _, err := Probe(second); err != nil {
			t.Error(err)
		}
		second.Close()
	}
	if amid == 0 {
		t.Skip("no socket got the records of one that was gone")
	}
}

// Any process can send to a socket of generic netlink, but not to one that requests are sent with
// or that gets records.
func TestForgedAnswer(t *testing.T) {
	conn, err := Dial()
	if err != nil {
		t.Skip(err)
	}
	defer conn.Close()
	if err := kernelsocket.Forge(conn, unix.NETLINK_GENERIC, make([]byte, sizeNlmsghdr+sizeGenl)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("another process can send to it: %v", err)
	}
}
