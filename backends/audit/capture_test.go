package audit

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
)

func TestCapture(t *testing.T) {
	s := open(t, Options{}, source.Options{Kinds: 0xff &^ (1 << 7)})
	conform.Child("exit").Run()
	time.Sleep(100 * time.Millisecond)
	b := nlsocket.NewBatch(64, maxMessage)
	for b.Receive(s.fd) != unix.EAGAIN && b.N < 60 {
	}
	for i := range b.N {
		m, _ := b.Message(i)
		t.Logf("%d %q", uint16(m[4])|uint16(m[5])<<8, m[16:])
	}
}
