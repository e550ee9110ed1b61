package kprobe

import (
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
)

func TestMain(m *testing.M) {
	conform.Main(m, map[string]func(){"dropped": readUnprivileged})
}

// readUnprivileged opens a source, uses it without privileges, and closes it.
func readUnprivileged() {
	s, err := Open(source.Options{}, Options{})
	conform.Try("open", err)
	conform.Dropped(s)
	conform.Try("close", s.Close())
}
