package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

var sum = strings.Repeat("0", 64)

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.json")
	if l, err := readLock(path); err != nil || len(l) != 0 {
		t.Errorf("no file: %v, %v", l, err)
	}
	want := lock{"b": {Name: "b", Package: "p", Version: "1", SHA256: sum}, "a": {Name: "a", Package: "q", Version: "2", SHA256: sum}}
	if err := want.write(path); err != nil {
		t.Fatal(err)
	}
	got, err := readLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b, _ := os.ReadFile(path); strings.Index(string(b), `"a"`) > strings.Index(string(b), `"b"`) {
		t.Error("it is not in order")
	}
	for _, bad := range []string{"{", `[{"name":"x"}]`, `[{"name":"x","package":"p","version":"1","sha256":"0"}]`} {
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readLock(path); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestLockPrefers(t *testing.T) {
	l := lock{"row": {Name: "row", Package: "p", Version: "1", SHA256: sum}}
	p1, p2, p3 := Package{Name: "p", Version: "1"}, Package{Name: "p", Version: "2"}, Package{Name: "q", Version: "3"}
	for _, tt := range []struct {
		row      string
		packages []Package
		want     []Package
		gone     string
	}{
		{"row", []Package{p3, p2, p1}, []Package{p1, p3, p2}, ""},
		{"row", []Package{p3, p2}, []Package{p3, p2}, "p 1"},
		{"other", []Package{p3, p2}, []Package{p3, p2}, ""},
	} {
		got, gone := l.prefer(tt.row, tt.packages)
		if diff := cmp.Diff(tt.want, got); diff != "" || gone != tt.gone {
			t.Errorf("%s: gone %q, want %q (-want +got):\n%s", tt.row, gone, tt.gone, diff)
		}
	}
	if l.insteadOf("row", p2) != "1" || l.insteadOf("row", p1) != "" || l.insteadOf("other", p2) != "" {
		t.Error("in place of what a package is taken")
	}
	for _, tt := range []struct {
		e     Entry
		admit bool
		ok    bool
	}{
		{Entry{Name: "row", Package: "p", Version: "1", SHA256: sum}, true, true},
		{Entry{Name: "row", Package: "p", Version: "1", SHA256: "other"}, true, false},
		{Entry{Name: "row", Package: "p", Version: "2", SHA256: "other"}, false, true},
		{Entry{Name: "row", Package: "p", Version: "2", InsteadOf: "1"}, true, true},
		{Entry{Name: "row", Package: "p", Version: "2", InsteadOf: "0"}, false, true},
		{Entry{Name: "other", Package: "p", Version: "2"}, true, true},
	} {
		if got := l.admits(tt.e); got != tt.admit {
			t.Errorf("%+v is admitted: %v", tt.e, got)
		}
		if err := l.check(tt.e); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.e, err)
		}
	}
}

// TestLocked: the committed lock has every row that comes in a package, resolved to a package of
// the row's.
func TestLocked(t *testing.T) {
	l, err := readLock("lock.json")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := catalogue.Rows()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		e, ok := l[r.Name]
		delete(l, r.Name)
		if r.Built {
			continue
		}
		if !ok || !matches(r, Package{Name: e.Package, Version: e.Version, Arch: r.Arch, Size: 1 << 30}) || e.InsteadOf != "" {
			t.Errorf("%s is locked to %+v", r.Name, e)
		}
	}
	for name := range l {
		t.Errorf("%s is locked and in no catalogue", name)
	}
}

// TestAdopt: an image that is there is taken without the network, if it is what its checksum says.
func TestAdopt(t *testing.T) {
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Name: "a", Package: "p", Version: "1", Release: "6.1"}
	if _, err := c.adopt(e); err == nil {
		t.Error("nothing is there")
	}
	stored, err := c.store(e, content("image"))
	if err != nil {
		t.Fatal(err)
	}
	e.Name = "b"
	got, err := c.adopt(e)
	if err != nil || got.SHA256 != stored.SHA256 {
		t.Errorf("%+v, %v", got, err)
	}
	if loaded, err := c.load("b"); err != nil || loaded != got {
		t.Errorf("%+v, %v", loaded, err)
	}
	if err := os.WriteFile(c.imagePath(got), []byte("imagE"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.adopt(e); err == nil {
		t.Error("a damaged image is taken")
	}
}
