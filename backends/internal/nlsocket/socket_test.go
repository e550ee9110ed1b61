package nlsocket

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// room is the size of an error message, which includes the rejected request.
const room = 256

// open opens a socket. Each request makes the kernel send an error message.
func open(t *testing.T) (fd int, request func()) {
	t.Helper()
	fd, err := Open(unix.NETLINK_ROUTE, 0, 1<<20)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, func() {
		t.Helper()
		m := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint32(m, uint32(len(m)))
		binary.NativeEndian.PutUint16(m[4:], 0x7fff) // unknown message type
		binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
		if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil && err != unix.ENOBUFS {
			t.Fatal(err)
		}
	}
}

// If a batch is full, messages stay in the socket.
func TestReceive(t *testing.T) {
	fd, request := open(t)
	b := NewBatch(3, room)
	if errno := b.Receive(fd); errno != unix.EAGAIN {
		t.Fatalf("empty socket: got %v, want EAGAIN", errno)
	}
	for range 5 {
		request()
	}
	for _, want := range []int{3, 2} {
		if errno := b.Receive(fd); errno != 0 || b.N != want {
			t.Fatalf("got %d messages, error %v; want %d", b.N, errno, want)
		}
		for ; b.Next < b.N; b.Next++ {
			data, genuine := b.Message(b.Next)
			if !genuine || len(data) < unix.SizeofNlMsghdr || binary.NativeEndian.Uint16(data[4:]) != unix.NLMSG_ERROR {
				t.Errorf("got genuine %v for message %x", genuine, data)
			}
		}
	}
	// Receive keeps the unhandled messages of a batch, and adds none to a full batch.
	request()
	request()
	b = NewBatch(2, room)
	b.Fill([]byte("first"))
	if errno := b.Receive(fd); errno != 0 || b.N != 2 {
		t.Fatalf("got %d messages, error %v; want 2", b.N, errno)
	}
	if errno := b.Receive(fd); errno != 0 || b.N != 2 {
		t.Errorf("full batch: got %d messages, error %v; want 2", b.N, errno)
	}
	if data, genuine := b.Message(0); !genuine || !bytes.Equal(data, []byte("first")) {
		t.Errorf("got %q, genuine %v; want first", data, genuine)
	}
}

// A truncated message or a message of another process is not genuine.
func TestGenuine(t *testing.T) {
	fd, request := open(t)
	request()
	b := NewBatch(1, 8)
	if errno := b.Receive(fd); errno != 0 {
		t.Fatal(errno)
	}
	if data, genuine := b.Message(0); genuine || len(data) != 8 {
		t.Errorf("truncated message: got %x, genuine %v", data, genuine)
	}
	var pair [2]int
	for i := range pair {
		var err error
		if pair[i], err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_USERSOCK); err != nil {
			t.Skip(err)
		}
		defer unix.Close(pair[i])
		if err := unix.Bind(pair[i], &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
	}
	to, err := unix.Getsockname(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(pair[0], make([]byte, unix.SizeofNlMsghdr), 0, to); err != nil {
		t.Skip(err)
	}
	b = NewBatch(1, room)
	if errno := b.Receive(pair[1]); errno != 0 {
		t.Fatal(errno)
	}
	if _, genuine := b.Message(0); genuine {
		t.Error("a message of another process is reported as genuine")
	}
}

// If the receive buffer is full, the socket counts the dropped messages.
func TestDrops(t *testing.T) {
	fd, request := open(t)
	if n := Drops(fd); n != 0 {
		t.Fatalf("new socket: got %d drops, want 0", n)
	}
	if err := SetReceiveBuffer(fd, 1); err != nil { // the kernel uses its minimum
		t.Fatal(err)
	}
	const requests = 200
	for range requests {
		request()
	}
	dropped, received, overruns := Drops(fd), 0, 0
	b := NewBatch(8, room)
	for errno := unix.Errno(0); errno != unix.EAGAIN; {
		switch errno = b.Receive(fd); errno {
		case 0:
			received += b.N - b.Next
			b.Next = b.N
		case unix.ENOBUFS:
			overruns++
		case unix.EAGAIN:
		default:
			t.Fatal(errno)
		}
	}
	t.Logf("received %d of %d messages, dropped %d, overran %d times", received, requests, dropped, overruns)
	if received == 0 || dropped == 0 || received+int(dropped) != requests || overruns == 0 {
		t.Error("got received + dropped messages != requests, or one of them 0")
	}
}
