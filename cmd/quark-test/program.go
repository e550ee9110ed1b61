package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// program returns the path of a program that says that it runs and stands still
// until it is told to end, with the code: one so small that its execution takes a
// guest a few milliseconds.
func (t *test) program(code int) string {
	path := filepath.Join(t.TempDir(), "program")
	t.writeProgram(path, code)
	return path
}

func (t *test) writeProgram(path string, code int) {
	b, err := tinyelf.Waiter(uint8(code))
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatalf("write a program: %v", err)
	}
}

// attach appends the calls that make the gates those of such a program.
func attach(s *bare.Script, end, running *gate) *bare.Script {
	return s.Call("dup3", unix.SYS_DUP3, end.r, 0, 0).Call("dup3", unix.SYS_DUP3, running.w, 1, 0)
}
