package kprobe

import (
	"fmt"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
)

func TestMain(m *testing.M) {
	conform.Main(m, map[string]func(){"dropped": dropped, "hold": hold})
}

// dropped opens a source, uses it without privileges, and closes it.
func dropped() {
	s, err := Open(source.Options{}, Options{})
	conform.Try("open", err)
	conform.Dropped(s)
	conform.Try("close", s.Close())
}

// hold opens a source and waits to be killed.
func hold() {
	_, err := Open(source.Options{}, Options{})
	conform.Try("open", err)
	fmt.Println()
	time.Sleep(time.Minute)
}
