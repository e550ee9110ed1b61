package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/retry"
)

// TestMain lets the test binary also be quark-matrix, or the qemu that quark-matrix starts.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "qemu-system-x86_64" {
		fakeQEMU()
		os.Exit(0)
	}
	if os.Getenv("QUARK_MATRIX_ITSELF") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestBootEnds ends guests by signals. The status names the signal, and nothing of the guest
// remains.
func TestBootEnds(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		env    string
		status int // -1: killed
		want   string
	}{
		{syscall.SIGINT, "", 130, "krun.sh: stopped by SIGINT\n"},
		{syscall.SIGTERM, "", 143, "krun.sh: stopped by SIGTERM\n"},
		{syscall.SIGHUP, "", 129, "krun.sh: stopped by SIGHUP\n"},
		{syscall.SIGKILL, "", -1, ""},
		{syscall.SIGUSR1, "", 124, "krun.sh: the guest's stacks:\nstacks\nkrun.sh: stopped the guest (SIGUSR1)\n"},
		{0, "KRUN_TIMEOUT=1", 124, "krun.sh: the guest's stacks:\nstacks\nkrun.sh: deadline: the guest did not end within 1 s (KRUN_TIMEOUT)\n"},
	} {
		t.Run(tt.signal.String()+tt.env, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			image, started := filepath.Join(dir, "image"), filepath.Join(dir, "pid")
			bzImage := make([]byte, 1024)
			copy(bzImage[0x202:], "HdrS")
			// After a request the fake guest prints its stacks and ends.
			qemu := "#!/bin/sh\necho $$ >" + started + ".new\nmv " + started + ".new " + started + "\ndd bs=1 count=1 >/dev/null 2>&1\necho stacks\n"
			if err := errors.Join(os.WriteFile(image, bzImage, 0o644), os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(qemu), 0o755)); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0], "boot", image, image, "true")
			cmd.Env = append(os.Environ(), "QUARK_MATRIX_ITSELF=1", "KRUN_ACCEL=tcg", "KRUN_STDIN=0", "PATH="+dir+":"+os.Getenv("PATH"), tt.env)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := 0
			for range retry.For(20 * time.Second) {
				b, _ := os.ReadFile(started)
				if pid, _ = strconv.Atoi(strings.TrimSpace(string(b))); pid != 0 {
					break
				}
			}
			if pid == 0 {
				t.Error("qemu was not started")
			}
			cmd.Process.Signal(tt.signal)
			cmd.Wait()
			got := strings.ReplaceAll(out.String(), "krun.sh: the guest does not respond to the request for its stacks\n", "")
			if status := cmd.ProcessState.ExitCode(); status != tt.status || got != tt.want {
				t.Errorf("status %d, want %d; output %q, want %q", status, tt.status, got, tt.want)
			}
			for range retry.For(10 * time.Second) {
				if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
					return
				}
			}
			t.Fatalf("process %d still exists", pid)
		})
	}
}
