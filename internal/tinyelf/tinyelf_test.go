package tinyelf

import (
	"debug/elf"
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
			t.Errorf("exit code %d, want %d (%v)", got, code, cmd.ProcessState)
		}
	}
}

func TestEachMachine(t *testing.T) {
	for arch, want := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, program := range []func(string, uint8) (uint16, []byte, error){exitCode, waiter, reader} {
			machine, text, err := program(arch, 7)
			if err != nil || elf.Machine(machine) != want || len(text) == 0 {
				t.Errorf("%s: machine %d, %d bytes, %v", arch, machine, len(text), err)
			}
		}
	}
	if _, _, err := exitCode("vax", 0); err == nil {
		t.Error("programs for a vax")
	}
	if _, _, err := waiter("vax", 0); err == nil {
		t.Error("programs for a vax")
	}
}

func TestReaderReadsAll(t *testing.T) {
	program, err := Reader(7)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "reader")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
		t.Errorf("it took %d bytes: %v", n, err)
	}
	in.Close()
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

func TestWaiterWaits(t *testing.T) {
	program, err := Waiter(7)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "waiter")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for what, tell := range map[string]func(io.WriteCloser) error{
		"a byte":  func(in io.WriteCloser) error { _, err := in.Write([]byte{1}); return err },
		"the end": func(in io.WriteCloser) error { return in.Close() },
	} {
		cmd := exec.Command(path)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if n, err := out.Read(make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("%d bytes, %v before it waits", n, err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			t.Errorf("it does not wait: %s, %v", stat, err)
		}
		if err := tell(in); err != nil {
			t.Error(err)
		}
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 7 {
			t.Errorf("exit code %d after %s, want 7 (%v)", got, what, cmd.ProcessState)
		}
	}
}
