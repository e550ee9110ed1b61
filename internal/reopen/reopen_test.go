package reopen

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/retry"
)

// open opens a file in a new directory, and fails the test if it cannot be reopened.
func open(t *testing.T) (f *File, name string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be renamed")
	}
	name = filepath.Join(t.TempDir(), "events")
	f, err := Open(name, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, name
}

func write(t *testing.T, f *File, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n, err := io.WriteString(f, text); n != len(text) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
		}
	}
}

func check(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s: got %q, error %v, want %q", filepath.Base(name), got, err, want)
	}
}

func rename(t *testing.T, name string) {
	t.Helper()
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
}

func TestReopen(t *testing.T) {
	f, name := open(t)
	write(t, f, "one\n", "two\n")
	rename(t, name)
	f.Reopen()
	write(t, f, "three\n")
	check(t, name+".1", "one\ntwo\n")
	check(t, name, "three\n")
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, error %v", st.Mode(), err)
	}
}

// The current line stays whole.
func TestReopenInALine(t *testing.T) {
	f, name := open(t)
	write(t, f, "one\ntw")
	rename(t, name)
	f.Reopen()
	write(t, f, "", "o", "\nthree\nfo", "ur\n")
	check(t, name+".1", "one\ntwo\n")
	check(t, name, "three\nfour\n")
}

// An incomplete line of a killed writer becomes a separate line.
func TestHalfLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(name, []byte("ha"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		f, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		write(t, f, line)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check(t, name, "ha\none\ntwo\n")
}

// If the new file cannot be opened, the old one stays in use.
func TestReopenFails(t *testing.T) {
	f, name := open(t)
	var failed error
	f.failed = func(err error) { failed = err }
	write(t, f, "one\n")
	rename(t, name)
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	f.Reopen()
	write(t, f, "two\n")
	check(t, name+".1", "one\ntwo\n")
	if failed == nil || !strings.Contains(failed.Error(), "reopen the file: ") {
		t.Errorf("got reported error %v", failed)
	}
}

func TestNoFile(t *testing.T) {
	for name, want := range map[string]string{t.TempDir(): "is a directory", os.DevNull: "not a regular file", filepath.Join(t.TempDir(), "no", "file"): "no such file"} {
		if _, err := Open(name, nil); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A hangup reopens the file, and does not end this program.
func TestHangup(t *testing.T) {
	f, name := open(t)
	write(t, f, "one\n")
	rename(t, name)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range retry.For(time.Minute) {
		if _, err = os.Stat(name); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal("the file was not reopened within a minute")
	}
	write(t, f, "two\n")
	check(t, name+".1", "one\n")
	check(t, name, "two\n")
}
