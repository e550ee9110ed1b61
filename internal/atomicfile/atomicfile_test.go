package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err := Create(path, func(w io.Writer) error {
		io.WriteString(w, "half")
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("got error %v, want the writer's", err)
	}
	check := func(want string) {
		t.Helper()
		entries, _ := os.ReadDir(dir)
		if b, err := os.ReadFile(path); err != nil || string(b) != want || len(entries) != 1 {
			t.Errorf("got content %q, %d files, error %v; want content %q, 1 file", b, len(entries), err, want)
		}
	}
	check("old")
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	check("new")
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o644 {
		t.Errorf("got mode %v, error %v", st.Mode(), err)
	}
}
