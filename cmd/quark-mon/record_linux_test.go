package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only the owner can read a written file, even if the file existed before.
func TestFilesAreTheOwners(t *testing.T) {
	dir := t.TempDir()
	there, linked, fifo := filepath.Join(dir, "there"), filepath.Join(dir, "linked"), filepath.Join(dir, "fifo")
	for path, mode := range map[string]os.FileMode{there: 0o644, linked: 0o6666} {
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(path, uint32(mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("linked", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for name, want := range map[string]os.FileMode{
		there: 0o600, filepath.Join(dir, "link"): 0o600, filepath.Join(dir, "new"): 0o600,
		fifo: 0o644 | os.ModeNamedPipe, os.DevNull: 0o666 | os.ModeDevice | os.ModeCharDevice,
	} {
		f, err := new(files).create(t.Context(), name)
		if err != nil {
			t.Error(err)
			continue
		}
		defer f.Close()
		if _, err := f.Write([]byte("x")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if st, err := f.Stat(); err != nil || st.Mode() != want || st.Size() > 1 {
			t.Errorf("%s: got mode %v, %d bytes, error %v", name, st.Mode(), st.Size(), err)
		}
	}
}

// If quark-mon fails to start, existing files keep their contents, and new files are removed.
func TestFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	old, made := filepath.Join(dir, "old"), filepath.Join(dir, "made")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-w", old, "-C", made, "-b", "-B", "/nothing"}, {"-w", made, "-C", made}, {"replay", "-w", made, "-C", old, dir}} {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = append(os.Environ(), "QUARK_MON_RUN=1")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%q begins: %s", args, out)
		}
		if b, err := os.ReadFile(old); string(b) != "old" {
			t.Errorf("%q: %q, %v", args, b, err)
		}
		if _, err := os.Stat(made); err == nil {
			t.Errorf("%q leaves %s behind", args, made)
		}
	}
}

// If the mode of a file cannot be changed, nothing is written to it.
func TestFileOfAllIsRefused(t *testing.T) {
	const comm = "/proc/thread-self/comm"
	before, err := os.ReadFile(comm)
	if err != nil {
		t.Skip(err)
	}
	f := new(files)
	if _, err := f.create(t.Context(), comm); err == nil || len(f.opened) > 0 {
		t.Errorf("%v, %v", err, f.opened)
	} else {
		t.Log(err)
	}
	if after, _ := os.ReadFile(comm); string(after) != string(before) {
		t.Errorf("%q became %q", before, after)
	}
}
