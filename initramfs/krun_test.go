package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/atomicfile"
)

// krun runs krun.sh with additional environment and returns its exit status and all of its output.
func krun(t *testing.T, env []string, args ...string) (status int, output string) {
	t.Helper()
	cmd := exec.Command("../krun.sh", args...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir(), "KRUN_RESULTS=", "KRUN_APPEND=", "KRUN_TIMEOUT=120"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Skipf("run krun.sh: %v", err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestKrunRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	image := file("initramfs.gz", []byte("x"))
	bzImage := make([]byte, 1024)
	copy(bzImage[0x202:], "HdrS")
	x86 := file("bzImage", bzImage)
	text := file("text", []byte("not a kernel"))

	for _, tt := range []struct {
		name   string
		env    []string
		args   []string
		status int
		want   string
	}{
		{"nothing", nil, nil, 2, "are required"},
		{"unknown option", nil, []string{"-x"}, 2, "unknown option -x"},
		{"no command", nil, []string{image, x86}, 2, "COMMAND"},
		{"no initramfs", nil, []string{dir + "/none", x86, "true"}, 126, "make initramfs.gz"},
		{"no kernel", nil, []string{image, dir + "/none", "true"}, 126, "kernel_images"},
		{"a directory", nil, []string{image, dir, "true"}, 126, "cannot read"},
		{"no kernel image", nil, []string{image, text, "true"}, 126, "is no kernel image"},
		{"empty", nil, []string{image, file("empty", nil), "true"}, 126, "the file is empty"},
		{"damaged gzip", nil, []string{image, file("gz", []byte("\x1f\x8bxx")), "true"}, 126, "cannot unpack"},
		{"damaged zboot", nil, []string{image, file("zboot", []byte("MZ\x00\x00zimg\x40\x00\x00\x00\x10\x00\x00\x00")), "true"}, 126, "cannot unpack EFI zboot"},
		{"other ELF", nil, []string{image, file("elf", []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xf3\x00")), "true"}, 126, "unsupported architecture"},
		{"stdin", []string{"KRUN_STDIN=yes"}, []string{image, x86, "true"}, 2, "want 0 or 1"},
		{"timeout", []string{"KRUN_TIMEOUT=soon"}, []string{image, x86, "true"}, 2, "positive number"},
		{"results", []string{"KRUN_RESULTS=" + dir + "/none/x"}, []string{image, x86, "true"}, 126, "cannot write KRUN_RESULTS"},
		{"words too long", []string{"KRUN_ACCEL=tcg"}, []string{image, x86, strings.Repeat("x", 2100)}, 2, "2047 fit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out := krun(t, tt.env, tt.args...)
			if status == 126 && tt.status != 126 && strings.Contains(out, "install the package") {
				t.Skip("no qemu")
			}
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("status %d, want %d and %q; output:\n%s", status, tt.status, tt.want, out)
			}
		})
	}
}

// words is an endless input of one line, because input is lost until the guest reads.
type words struct{ stop chan struct{} }

func (w words) Read(b []byte) (int, error) {
	select {
	case <-w.stop:
		return 0, io.EOF
	case <-time.After(300 * time.Millisecond):
		return copy(b, "word\n"), nil
	}
}

// TestKrunGuest boots guests that end in several ways; package matrix has more. It needs qemu and a
// fetched kernel.
func TestKrunGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("boots guests")
	}
	kernel := filepath.Join("..", "kernel_images", runtime.GOARCH, "6.1-cloud")
	if _, err := os.Stat(kernel); err != nil {
		t.Skip("no kernel: go run ./kernel_images fetches it")
	}
	qemu := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	if _, err := exec.LookPath(qemu); err != nil {
		t.Skipf("no %s", qemu)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"build", "-buildvcs=false", "-o", filepath.Join(dir, "init"), "./init"},
		{"test", "-c", "-o", filepath.Join(dir, "guest"), "./testdata/guest"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	image := filepath.Join(dir, "initramfs.gz")
	img := Image{Arch: runtime.GOARCH, Init: filepath.Join(dir, "init"), Binaries: []string{filepath.Join(dir, "guest")}}
	if err := atomicfile.Create(image, img.Write); err != nil {
		t.Fatal(err)
	}

	t.Run("standard input", func(t *testing.T) {
		cmd := exec.Command("../krun.sh", image, kernel, "guest", "read", "word")
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "KRUN_STDIN=1", "KRUN_TIMEOUT=120")
		input := words{make(chan struct{})}
		cmd.Stdin = input
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		state, err := cmd.Process.Wait()
		close(input.stop)
		cmd.Wait() // for the output
		if err != nil || state.ExitCode() != 0 || !strings.Contains(out.String(), `read "word"`) {
			t.Errorf("got state %v, error %v; output:\n%s", state, err, out.String())
		}
	})

	results := filepath.Join(dir, "results")
	for _, tt := range []struct {
		name    string
		env     []string
		args    []string
		status  int
		output  string   // expected in krun.sh's output
		results []string // expected in the records
	}{
		// The emulated processor lacks CMPXCHG16B (see package machine), signals do not
		// end init, and the command gets its arguments and ends with status 3.
		{"status", []string{"KRUN_APPEND=quark.hide_btf=1", "KRUN_ACCEL=tcg"}, []string{"lacks", "cx16", "killinit", "args", "a b", "", `q"`, "%20", "ü", "--"}, 3,
			`["a b" "" "q\"" "%20" "ü" "--"]`, []string{`{"type":"hello","kernel":"6.1.`, `"btf":false`, `{"type":"end","status":3,`}},
		{"unknown knob", []string{"KRUN_APPEND=quark.hide_bft=1"}, []string{"exit", "0"}, 125, "unknown kernel argument quark.hide_bft", []string{`"error":`}},
		{"panic", nil, []string{"panic"}, 125, "Kernel panic - not syncing: sysrq triggered crash", []string{`{"type":"hello"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := append(tt.env, "KRUN_RESULTS="+results)
			status, out := krun(t, env, append([]string{image, kernel, "guest"}, tt.args...)...)
			if status != tt.status || !strings.Contains(out, tt.output) {
				t.Errorf("status %d, want %d and %q; output:\n%s", status, tt.status, tt.output, out)
			}
			records, err := os.ReadFile(results)
			for _, want := range tt.results {
				if err != nil || !strings.Contains(string(records), want) {
					t.Errorf("records %q, error %v; want %q", records, err, want)
				}
			}
		})
	}
}
