package names

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// writeFile writes a file with a time in seconds since 1970.
func writeFile(t *testing.T, file, text string, seconds int64) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, time.Unix(seconds, 0)); err != nil {
		t.Fatal(err)
	}
}

// A file is read again when it has changed, and the names stay if it is gone.
func TestChanges(t *testing.T) {
	passwd := filepath.Join(t.TempDir(), "passwd")
	f := &file{path: passwd}
	const root = "root:x:0:0:root:/root:/bin/sh\n"
	// check looks up the name of uid 1 when the file must be checked again.
	check := func(want string) {
		t.Helper()
		f.next = time.Time{}
		if got := f.name(1, nil); got != want {
			t.Fatalf("uid 1 is %q, not %q", got, want)
		}
	}
	for i, text := range []string{root, root + "bin:x:1:1::/:\n", "sys:x:1:1::/:\n"} {
		writeFile(t, passwd, text, int64(2+i))
		check([]string{"", "bin", "sys"}[i])
	}
	// The new file has the same size and time, and replaces the other.
	writeFile(t, passwd+"+", "man:x:1:1::/:\n", 4)
	if err := os.Rename(passwd+"+", passwd); err != nil {
		t.Fatal(err)
	}
	check("man")
	if err := os.Remove(passwd); err != nil {
		t.Fatal(err)
	}
	check("man")
	if got := (&file{path: filepath.Dir(passwd)}).name(1, nil); got != "" {
		t.Errorf("without a file: got name %q of uid 1, want none", got)
	}
}

// A file is checked at most once a second, not for each name.
func TestCached(t *testing.T) {
	passwd := filepath.Join(t.TempDir(), "passwd")
	writeFile(t, passwd, "a:x:1:1::/:\n", 1)
	f := &file{path: passwd}
	f.name(1, nil)
	f.next = time.Now().Add(time.Hour)
	writeFile(t, passwd, "b:x:1:1::/:\n", 2)
	if allocs := testing.AllocsPerRun(1000, func() { f.name(1, nil) }); allocs != 0 || f.name(1, nil) != "a" {
		t.Errorf("%g allocations, %q", allocs, f.name(1, nil))
	}
}

// Package os/user reads the same files, if it does not use the C library.
func TestThisHost(t *testing.T) {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Skip(err)
	}
	f := &file{path: "/etc/passwd"}
	for uid, name := range parseNames(string(text)) {
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil || u.Username != name || f.name(uid, nil) != name {
			t.Errorf("uid %d: got %q or %q, want %v (error %v)", uid, name, f.name(uid, nil), u, err)
		}
	}
}

// A line without a name or an id has no effect.
func TestParseNames(t *testing.T) {
	for line, want := range map[string]uint32{
		"n:x:7:8:g:d:s": 7, "  n:x:7:7::/:": 7, "n:x:7": 7, "#n:x:7:7::/:": 0, "+n:x:7:7::/:": 0, "n:x:-1:7::/:": 0, "n:x:0x1b:7::/:": 0,
		"n:x:4294967296:7::/:": 0, "n:x::7::/:": 0, "n:x": 0, "n": 0, "n:x:7:8\nother:x:7:8": 7,
	} {
		got := parseNames(line + "\n")
		if len(got) > 1 || want != 0 && got[want] != "n" || want == 0 && len(got) > 0 {
			t.Errorf("%q: %v", line, got)
		}
	}
}
