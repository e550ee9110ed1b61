package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
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

// librarySource is a library in C, with a symbol of glibc 2.34.
const librarySource = `#include <unistd.h>
#include <pthread.h>
int quark_test(pthread_t *t) { return pthread_join(*t, 0) + (int)getpid(); }
`

// libraryInstallation makes what make install-library does of a small library, in a new directory.
func libraryInstallation(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc, to make a library")
	}
	dir := t.TempDir()
	for _, name := range []string{"usr/include/quark.h", "usr/lib64/libquark.a", "usr/share/doc/libquark/LICENSE", "usr/share/doc/libquark/examples/monitor.c",
		"usr/share/man/man3/quark_queue_open.3"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("gcc", "-shared", "-fPIC", "-Wl,-soname,libquark.so.0", "-o", filepath.Join(dir, "usr/lib64/libquark.so.0"), "-x", "c", "-")
	c.Stdin = strings.NewReader(librarySource)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for link, to := range map[string]string{"usr/lib64/libquark.so": "libquark.so.0", "usr/share/man/man3/quark_queue_close.3": "quark_queue_open.3"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// debian runs dpkg-deb on a package.
func debian(t *testing.T, data []byte, verb string) string {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb")
	}
	path := filepath.Join(t.TempDir(), "package.deb")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("dpkg-deb", verb, path).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg-deb %s: %v: %s", verb, err, out)
	}
	return string(out)
}

// A package for Debian has the file that its policy wants, with the text of packaging/copyright.
func TestCopyright(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("needs dpkg-deb")
	}
	dir := installation(t, 0)
	t.Chdir("../..")
	want, err := os.ReadFile(copyright)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.deb")
	if err := os.WriteFile(path, made(t, "-arch", "amd64", "-part", "quark", "deb", dir), 0o644); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", path, to).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb -x: %v: %s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(to, "usr/share/doc/quark/copyright")); string(got) != string(want) {
		t.Errorf("got %v, %q", err, got)
	}
}

// The license and the packages name the same holder and year.
func TestHolder(t *testing.T) {
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../" + copyright)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if holder, ok := strings.CutPrefix(line, "Copyright: "); ok {
			if n++; !strings.Contains(string(license), "   Copyright "+holder) {
				t.Errorf("LICENSE does not name %q", holder)
			}
		}
	}
	if n == 0 {
		t.Errorf("%s has no holder", copyright)
	}
}

// The library is two packages: each file and link is in one of them, and what they need is said.
func TestLibraryIsTwoPackages(t *testing.T) {
	dir := libraryInstallation(t)
	t.Chdir("../..")
	run, dev := made(t, "-arch", "amd64", "-part", "libquark", "deb", dir), made(t, "-arch", "amd64", "-part", "libquark-dev", "deb", dir)
	for _, test := range []struct {
		deb             []byte
		control         []string
		files, notFiles []string
	}{
		{run, []string{"Package: libquark0", "Multi-Arch: same", "Depends: libc6 (>= 2.34)", "Section: libs"},
			[]string{"./usr/lib64/libquark.so.0", "./usr/share/doc/libquark/LICENSE", "./usr/share/doc/libquark0/copyright"},
			[]string{"libquark.so ", "quark.h", "libquark.a", "man3", "examples"}},
		{dev, []string{"Package: libquark-dev", "Multi-Arch: same", "Depends: libquark0 (= 1.2.3~dev.4+gabc)", "Section: libdevel"},
			[]string{"./usr/lib64/libquark.so -> libquark.so.0", "./usr/lib64/libquark.a", "./usr/include/quark.h",
				"./usr/share/man/man3/quark_queue_close.3 -> quark_queue_open.3", "./usr/share/man/man3/quark_queue_open.3", "./usr/share/doc/libquark/examples/monitor.c",
				"./usr/share/doc/libquark-dev/copyright"},
			[]string{"./usr/lib64/libquark.so.0", "LICENSE"}},
	} {
		control, contents := debian(t, test.deb, "-I"), debian(t, test.deb, "-c")
		for _, line := range test.control {
			if !strings.Contains(control, line+"\n") {
				t.Errorf("the package does not say %q:\n%s", line, control)
			}
		}
		for _, name := range test.files {
			if !strings.Contains(contents, " "+name+"\n") {
				t.Errorf("%s is missing:\n%s", name, contents)
			}
		}
		for _, name := range test.notFiles {
			if strings.Contains(contents, name) {
				t.Errorf("%s is in it:\n%s", name, contents)
			}
		}
	}
	for _, part := range []string{"libquark", "libquark-dev"} {
		if !bytes.Equal(made(t, "-arch", "amd64", "-part", part, "rpm", dir), made(t, "-arch", "amd64", "-part", part, "rpm", dir)) {
			t.Errorf("%s: other bytes the second time", part)
		}
	}
	if data := made(t, "-arch", "amd64", "-part", "libquark", "rpm", dir); !bytes.Contains(data, []byte("libquark.so.0()(64bit)")) || !bytes.Contains(data, []byte("libc.so.6(GLIBC_2.34)(64bit)")) {
		t.Error("the package for rpm does not say what it provides and needs")
	}
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

// Who can build quark can make its packages, as the README has it: with the same Go.
func TestLeastGoIsQuarks(t *testing.T) {
	goLine := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^go .*$`).FindString(string(data))
	}
	if own, quarks := goLine("go.mod"), goLine("../../go.mod"); own != quarks || own == "" {
		t.Errorf("go.mod here has %q, that of quark %q", own, quarks)
	}
}

func TestWrongUsage(t *testing.T) {
	dir := installation(t, 0)
	if err := os.Symlink("../share", filepath.Join(dir, "usr/bin/link")); err != nil {
		t.Fatal(err)
	}
	other := installation(t, 0)
	if err := syscall.Mkfifo(filepath.Join(other, "usr/bin/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-o FILE is wanted":              {"-version", "v1.0.0", "-time", "1", "-arch", "amd64", "tar", dir},
		"-version and -time are wanted":  {"-o", "x", "-arch", "amd64", "tar", dir},
		"neither a file nor a directory": {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "tar", other},
		"which is not beside it":         {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "tar", dir},
		"quark, libquark or":             {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "-part", "lib", "deb", dir},
		"is empty":                       {"-o", "x", "-version", "v1.0.0", "-time", "1", "-arch", "amd64", "deb", t.TempDir()},
		"IMAGE, ARCH and DIR are wanted": {"unpack", "x"},
		"ARCH=TREE is wanted":            {"-o", filepath.Join(t.TempDir(), "x"), "-version", "v1.0.0", "-time", "1", "image", dir},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}
