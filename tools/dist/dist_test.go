package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// installation makes a small installation in a new directory. When it was made, and in what order,
// differs from call to call.
func installation(t *testing.T, seed int) string {
	t.Helper()
	dir := t.TempDir()
	names := []string{"usr/bin/quark-mon", "usr/share/man/man8/quark-mon.8", "usr/share/doc/quark/LICENSE", "usr/local/bin/quark-mon",
		"usr/local/share/doc/quark/README.md", "etc/quark/rules"}
	if seed%2 == 1 {
		slices.Reverse(names)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(name+"\n", 1000)), mode); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(1e9+int64(seed)*1e6, 0)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// made runs the command and returns the file that it has made.
func made(t *testing.T, args ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := run(append([]string{"-version", "v1.2.3-dev.4+gabc", "-time", "1700000000", "-o", path}, args...)); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) == 0 {
		t.Fatalf("%q: %d bytes, %v", args, len(data), err)
	}
	return data
}

func TestSameTreesGiveTheSameBytes(t *testing.T) {
	t.Chdir("../..") // where the scripts of packages are looked for
	for _, verb := range []string{"tar", "deb", "rpm", "image"} {
		var first []byte
		for seed := range 2 {
			dir := installation(t, seed)
			args := []string{"-arch", "arm64", verb, dir}
			if verb == "image" {
				args = []string{verb, "amd64=" + dir, "arm64=" + dir}
			}
			data := made(t, args...)
			if first == nil {
				first = data
				continue
			}
			if !bytes.Equal(first, data) {
				t.Errorf("%s: other bytes in another directory at another time", verb)
			}
			if bytes.Contains(data, []byte(dir)) {
				t.Errorf("%s has the path of this machine", verb)
			}
		}
		dir := installation(t, 0)
		if err := os.WriteFile(filepath.Join(dir, "usr/bin/quark-mon"), []byte("another"), 0o755); err != nil {
			t.Fatal(err)
		}
		if verb != "image" && verb != "tar" && bytes.Equal(first, made(t, "-arch", "arm64", verb, dir)) {
			t.Errorf("%s: the same bytes for another command", verb)
		}
	}
}

func TestImageHasCommandsOnly(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(archive, made(t, "image", "amd64="+installation(t, 0)), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := run([]string{"unpack", archive, "amd64", dir}); err != nil {
		t.Fatal(err)
	}
	files, err := readTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if !f.mode.IsDir() {
			names = append(names, f.name)
		}
	}
	if want := []string{"etc/group", "etc/passwd", "usr/bin/quark-mon", "usr/share/doc/quark/LICENSE"}; !slices.Equal(names, want) {
		t.Errorf("the image has %q, not %q", names, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "usr/bin/quark-mon")); err != nil || info.Mode() != 0o755 {
		t.Errorf("quark-mon: %v %v", info, err)
	}
	if err := run([]string{"unpack", archive, "arm64", dir}); err == nil || !strings.Contains(err.Error(), "no image for arm64") {
		t.Errorf("an architecture that is not there: %v", err)
	}
}

func TestWrongUsage(t *testing.T) {
	dir := installation(t, 0)
	if err := os.Symlink("quark-mon", filepath.Join(dir, "usr/bin/link")); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-o FILE is wanted":              {"-version", "v1.0.0", "-time", "1", "-arch", "amd64", "tar", dir},
		"-version and -time are wanted":  {"-o", "x", "-arch", "amd64", "tar", dir},
		"neither a file nor a directory": {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "tar", dir},
		"is empty":                       {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "deb", t.TempDir()},
		"IMAGE, ARCH and DIR are wanted": {"unpack", "x"},
		"ARCH=TREE is wanted":            {"-o", filepath.Join(t.TempDir(), "x"), "-version", "v1.0.0", "-time", "1", "image", dir},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}
