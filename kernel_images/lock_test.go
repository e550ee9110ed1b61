package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/catalogue"
	"github.com/quark-linux/quark/internal/harness/debian"
)

var sum = strings.Repeat("0", 64)

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.json")
	if l, err := readLock(path); err != nil || len(l) != 0 {
		t.Errorf("no file: got %v, error %v", l, err)
	}
	want := lock{"b": {Package: "p", Version: "1", SHA256: sum}, "a": {Package: "q", Version: "2", SHA256: sum}}
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
		t.Error("the lock file is not sorted")
	}
	for _, bad := range []string{"{", `{"x":{}}`, `{"x":{"package":"p","version":"1","sha256":"0"}}`} {
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readLock(path); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}

func TestLockPrefers(t *testing.T) {
	l := lock{"row": {Package: "p", Version: "1", SHA256: sum}}
	p1, p2, p3 := debian.Package{Name: "p", Version: "1"}, debian.Package{Name: "p", Version: "2"}, debian.Package{Name: "q", Version: "3"}
	for _, tt := range []struct {
		row      string
		packages []debian.Package
		want     []debian.Package
		gone     string
	}{
		{"row", []debian.Package{p3, p2, p1}, []debian.Package{p1, p3, p2}, ""},
		{"row", []debian.Package{p3, p2}, []debian.Package{p3, p2}, "p 1"},
		{"other", []debian.Package{p3, p2}, []debian.Package{p3, p2}, ""},
	} {
		got, gone := l.prefer(tt.row, tt.packages)
		if diff := cmp.Diff(tt.want, got); diff != "" || gone != tt.gone {
			t.Errorf("%s: gone %q, want %q (-want +got):\n%s", tt.row, gone, tt.gone, diff)
		}
	}
	for _, tt := range []struct {
		row string
		p   debian.Package
		sum string
		ok  bool
	}{
		{"row", p1, sum, true},
		{"row", p1, "other", false},
		{"row", p2, "other", true},
		{"other", p1, "other", true},
	} {
		if err := l.check(tt.row, tt.p, tt.sum); (err == nil) != tt.ok {
			t.Errorf("%+v: got error %v", tt, err)
		}
	}
}

// TestLocked checks that the committed lock has a matching package for every row that comes in a
// package.
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
		if r.Image != "" {
			continue
		}
		if !ok || !matches(r, debian.Package{Name: e.Package, Version: e.Version, Arch: r.Arch, Size: 1 << 30}) {
			t.Errorf("%s is locked to %+v", r.Name, e)
		}
	}
	for name := range l {
		t.Errorf("%s is locked but not in the catalogue", name)
	}
}

// TestProvide checks that a locked image in the cache is linked without the network, as is its
// replacement, if the checksum matches; a damaged one is not.
func TestProvide(t *testing.T) {
	t.Setenv("PATH", "") // no apt
	c, err := openCache(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l := lock{}
	for row, p := range map[string]debian.Package{
		"good-amd64": {Name: "linux-image-1", Version: "1"}, "replaced-amd64": {Name: "linux-image-2", Version: "2"},
		"damaged-amd64": {Name: "linux-image-3", Version: "3"},
	} {
		sum, err := c.Store(imageOf(p), []byte(row))
		if err != nil {
			t.Fatal(err)
		}
		l[row] = Locked{p.Name, p.Version, sum}
	}
	gone := imageOf(l["replaced-amd64"].pkg())
	newer := debian.Package{Name: "linux-image-2", Version: "2.1"}
	if _, err := c.Store(imageOf(newer), []byte("newer")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(c.Path(gone)), os.Remove(c.Path(gone)+".sha256"), c.replace(gone, imageOf(newer)), l.write(filepath.Join(dir, "lock.json"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Path(imageOf(l["damaged-amd64"].pkg())), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	var rows []catalogue.Row
	for _, name := range []string{"damaged-amd64", "good-amd64", "replaced-amd64"} {
		rows = append(rows, catalogue.Row{Name: name, Arch: "amd64", Suites: []string{"sid"}})
	}
	var out strings.Builder
	f := &fetcher{cache: c, say: t.Logf}
	err = f.provide(t.Context(), rows, dir, false, &out)
	if err == nil || !strings.Contains(err.Error(), "damaged-amd64: apt-get not found") {
		t.Errorf("got error %v", err)
	}
	want := "good-amd64: cached linux-image-1 1, sha256 ok\n" +
		"replaced-amd64: cached 2_2.1, sha256 ok, for the locked 2 is gone\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	for name, want := range map[string]string{"good": "good-amd64", "replaced": "newer"} {
		if b, err := os.ReadFile(filepath.Join(dir, "amd64", name)); err != nil || string(b) != want {
			t.Errorf("%s: got %q, error %v", name, b, err)
		}
	}
	// An existing link is kept.
	if err := link(c.Path(imageOf(newer)), filepath.Join(dir, "amd64", "damaged")); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := f.provide(t.Context(), rows[:1], dir, true, &out); err != nil || !strings.HasPrefix(out.String(), "damaged-amd64: cached 2_2.1, sha256 ok; not refreshed: apt-get not found") {
		t.Errorf("got output %q, error %v", &out, err)
	}
	if kept, err := readLock(filepath.Join(dir, "lock.json")); err != nil || cmp.Diff(l, kept) != "" {
		t.Errorf("the lock changed: %s, %v", cmp.Diff(l, kept), err)
	}
}
