package tracepoint

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
)

func TestMain(m *testing.M) {
	conform.Main(m, map[string]func(){"dropped": dropped, "nobody": nobody})
}

// dropped opens a source, uses it without privileges, and closes it.
func dropped() {
	s, err := Open(source.Options{}, Options{})
	conform.Try("open", err)
	conform.Dropped(s)
	conform.Try("close", s.Close())
}

// nobody fails to open a source.
func nobody() {
	conform.Try("setuid", unix.Setresuid(65534, 65534, 65534))
	if _, err := Open(source.Options{}, Options{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
