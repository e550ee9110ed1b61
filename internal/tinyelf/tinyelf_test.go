package tinyelf

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
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
		machine, text, err := exitCode(arch, 7)
		if err != nil || elf.Machine(machine) != want || len(text) == 0 {
			t.Errorf("%s: machine %d, %d bytes, %v", arch, machine, len(text), err)
		}
	}
	if _, _, err := exitCode("vax", 0); err == nil {
		t.Error("programs for a vax")
	}
}
