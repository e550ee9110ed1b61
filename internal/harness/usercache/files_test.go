package usercache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/atomicfile"
)

func TestFiles(t *testing.T) {
	c, err := OpenFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := "6.1.0-1_1%3a6.1.1-1"
	if _, err := c.Verify(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("empty cache: error %v, want ErrNotExist", err)
	}
	stored, err := c.Store(name, []byte("image"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Verify(name); got != stored || err != nil {
		t.Errorf("checksum %s, error %v, want %s", got, err, stored)
	}
	sum, err := os.ReadFile(c.Path(name) + ".sha256")
	if err != nil || string(sum) != stored+"  "+name+"\n" {
		t.Errorf("got checksum file %q, error %v", sum, err)
	}

	t.Run("a failed write keeps the old one and leaves nothing", func(t *testing.T) {
		before := tree(t, c.dir)
		if _, err := c.Store("none/"+name, nil); err == nil || !strings.Contains(err.Error(), c.dir) {
			t.Errorf("error %v, want one with the directory", err)
		}
		if diff := cmp.Diff(before, tree(t, c.dir)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if _, err := c.Verify(name); err != nil {
			t.Error(err)
		}
	})

	t.Run("damage is seen", func(t *testing.T) {
		if err := os.WriteFile(c.Path(name), []byte("imagE"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Verify(name); !errors.Is(err, ErrDamaged) {
			t.Errorf("error %v, want ErrDamaged", err)
		}
		if err := os.Remove(c.Path(name)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Verify(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})

	t.Run("sweep", func(t *testing.T) {
		temp := filepath.Join(c.dir, atomicfile.TempPrefix+"1")
		if err := os.WriteFile(temp, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		c.removeTemporary(time.Now().Add(-time.Hour))
		if _, err := os.Stat(temp); err != nil {
			t.Error("the file of a running writer was removed")
		}
		c.removeTemporary(time.Now().Add(time.Hour))
		if _, err := os.Stat(temp); !os.IsNotExist(err) {
			t.Error("a stale file is still there")
		}
	})
}

func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
