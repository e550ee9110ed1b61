package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// program writes a program that says that it runs, waits, and ends with the code, and
// returns its path. It is so small that executing it takes a guest a few milliseconds.
func (t *test) program(code int) string {
	path := filepath.Join(t.TempDir(), "program")
	b, err := tinyelf.Waiter(uint8(code))
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatalf("write a program: %v", err)
	}
	return path
}

// attach appends the calls that make the gates the standard input and output, as such a
// program needs them.
func attach(s *bare.Script, end, running *gate) *bare.Script {
	return s.Call("dup3", unix.SYS_DUP3, end.r, 0, 0).Call("dup3", unix.SYS_DUP3, running.w, 1, 0)
}
