package machine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/retry"
)

// script starts a machine with a shell script for qemu, whose first inherited file is number 3.
func script(t *testing.T, text string, c Config) *VM {
	t.Helper()
	dir := t.TempDir()
	c.QEMU, c.Kernel, c.Initramfs = filepath.Join(dir, "qemu"), filepath.Join(dir, "kernel"), filepath.Join(dir, "kernel")
	image := make([]byte, 1024)
	copy(image[0x202:], "HdrS")
	if err := errors.Join(os.WriteFile(c.QEMU, []byte("#!/bin/sh\n"+text), 0o755), os.WriteFile(c.Kernel, image, 0o644)); err != nil {
		t.Fatal(err)
	}
	c.Command = []string{"true"}
	vm, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vm.Stop)
	return vm
}

func TestVM(t *testing.T) {
	end, err := record.Encode(record.End{Status: 3})
	if err != nil {
		t.Fatal(err)
	}
	var console bytes.Buffer
	vm := script(t, "printf 'a\\r\\n[    1.0] Kernel panic - not syncing: no'; printf ' way\\r\\nb'; echo trouble >&2; printf '%s\\nrest' '"+
		strings.TrimSpace(string(end))+"' >&3", Config{Console: &console})
	<-vm.Done()
	if got, want := console.String(), "a\n[    1.0] Kernel panic - not syncing: no way\nb"; got != want {
		t.Errorf("console %q, want %q", got, want)
	}
	if got, want := vm.Panic(), "Kernel panic - not syncing: no way"; got != want {
		t.Errorf("panic %q, want %q", got, want)
	}
	if got := vm.Errors(); got != "trouble\n" {
		t.Errorf("got standard error %q", got)
	}
	for _, want := range [][]any{{record.End{Status: 3}, nil}, nil} {
		var got []any
		err := vm.Records(func(rec any, err error) {
			if err != nil && !errors.Is(err, record.ErrDamaged) {
				t.Error(err)
			}
			got = append(got, rec)
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("records %v, %v; want %v", got, err, want)
		}
	}
}

// TestInput: the guest gets the input, but no end of file.
func TestInput(t *testing.T) {
	vm := script(t, "read a; read b; echo $a-$b >&3; exec cat >/dev/null", Config{Input: strings.NewReader("1\n2\n")})
	got := ""
	for range retry.For(time.Minute) {
		b, err := io.ReadAll(io.NewSectionReader(vm.results, 0, 100))
		if got = string(b); err != nil || len(got) >= 4 {
			break
		}
	}
	if got != "1-2\n" {
		t.Fatalf("the guest read %q", got)
	}
	select {
	case <-vm.Done():
		t.Error("the input ended")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestPrintStacks: a request is repeated until the kernel has answered it.
func TestPrintStacks(t *testing.T) {
	answer := `lost=1
while byte=$(dd bs=1 count=1 2>/dev/null | od -An -c | tr -d ' '); do
	case $byte in
	9) echo '[ 1.0] sysrq: Changing Loglevel' ;;
	l) [ $lost = 1 ] && lost=0 || echo '[ 1.0] sysrq: Show backtrace of all active CPUs' ;;
	w) echo '[ 1.0] sysrq: Show Blocked State' ;;
	t) echo '[ 1.0] sysrq: Show State'; echo 'task:init' ;;
	esac
done`
	var console bytes.Buffer
	vm := script(t, answer, Config{Console: &console})
	if err := vm.PrintStacks(context.Background()); err != nil {
		t.Error(err)
	}
	vm.Stop()
	if !strings.HasSuffix(console.String(), "sysrq: Show State\ntask:init\n") {
		t.Errorf("got console %q", &console)
	}
	if err := vm.PrintStacks(context.Background()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("after the end: error %v", err)
	}
	deaf := script(t, "exec sleep 100", Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := deaf.PrintStacks(ctx); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a guest that does not answer: got error %v", err)
	}
}

// TestStopByForce: a machine that ignores SIGTERM is killed.
func TestStopByForce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 seconds")
	}
	vm := script(t, "trap '' TERM; echo ready >&3; while :; do sleep 0.1; done", Config{})
	for range retry.For(time.Minute) {
		if st, err := vm.results.Stat(); err == nil && st.Size() > 0 {
			break
		}
	}
	vm.Stop()
	if s := vm.cmd.ProcessState.String(); s != "signal: killed" {
		t.Errorf("the machine ended by %s", s)
	}
}
