package tinyelf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramEndsWithItsCode(t *testing.T) {
	for _, code := range []uint8{0, 1, 42, 255} {
		path := filepath.Join(t.TempDir(), "tiny")
		if err := Write(path, code); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != int(code) {
			t.Errorf("got exit code %d, want %d (%v)", got, code, cmd.ProcessState)
		}
	}
}

func TestEachMachine(t *testing.T) {
	for arch, want := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, first := range []int{nothing, waits, reads} {
			b, err := program(arch, first, 7)
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.NewFile(bytes.NewReader(b))
			if err != nil || f.Machine != want || len(b) < headers+len(machines[arch].exit(7)) {
				t.Errorf("%s: got %d bytes, file %v, error %v", arch, len(b), f, err)
			}
		}
	}
	if _, err := program("vax", waits, 0); err == nil {
		t.Error("got a program for a vax")
	}
}

// start starts a program that exits with 7. It returns its standard input and output.
func start(t *testing.T, first int) (*exec.Cmd, io.WriteCloser, io.Reader) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny")
	cmd := exec.Command(path)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, write(path, first, 7)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, out
}

func TestReaderReadsAll(t *testing.T) {
	cmd, in, _ := start(t, reads)
	if n, err := in.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
		t.Errorf("the program read %d bytes, want all: %v", n, err)
	}
	in.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("got %v, want exit status 7", cmd.ProcessState)
	}
}

func TestWaiterWaits(t *testing.T) {
	for what, wake := range map[string]func(io.WriteCloser) error{
		"a byte":  func(in io.WriteCloser) error { _, err := in.Write([]byte{1}); return err },
		"the end": func(in io.WriteCloser) error { return in.Close() },
	} {
		cmd, in, out := start(t, waits)
		if n, err := out.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("got %d bytes, error %v, want 1 byte before the wait", n, err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			t.Errorf("the program does not wait: %s, error %v", stat, err)
		}
		if err := wake(in); err != nil {
			t.Error(err)
		}
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 7 {
			t.Errorf("after %s: got exit code %d, want 7 (%v)", what, got, cmd.ProcessState)
		}
	}
}
