package packaging

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// version is the version of the commands that these tests install.
const version = "v1.2.3-test"

// makeIt runs make in the repository for an installation below dir.
func makeIt(t *testing.T, dir string, target ...string) string {
	t.Helper()
	for _, needed := range []string{"make", "go", "bash", "awk"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("needs %s", needed)
		}
	}
	c := exec.Command("make", append([]string{"--no-print-directory", "-C", "..", "PREFIX=/usr", "DESTDIR=" + dir, "VERSION=" + version,
		"RELEASE=build/test-release", "BINDINGS=build/test-release/library"}, target...)...)
	// This make must not get the variables of a make that runs this test.
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOARCH=") }),
		"MAKEFLAGS=", "MAKEOVERRIDES=", "SOURCE_DATE_EPOCH=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("make %q: %v\n%s", target, err, out)
	}
	return string(out)
}

// listed returns the sorted paths below /usr that a list of packaging/ installs.
func listed(t *testing.T, list string, variables ...string) []string {
	t.Helper()
	c := exec.Command("./install.sh", "list", list, "build")
	c.Env = append(os.Environ(), append([]string{"PREFIX=/usr", "DESTDIR="}, variables...)...)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	places := strings.Fields(string(out))
	slices.Sort(places)
	return places
}

var installation struct {
	sync.Once
	dir string
}

func TestMain(m *testing.M) {
	status := m.Run()
	if installation.dir != "" {
		os.RemoveAll(installation.dir)
	}
	os.Exit(status)
}

// installed returns a directory in which make install has installed everything, shared by all
// tests.
func installed(t *testing.T) string {
	t.Helper()
	installation.Do(func() {
		dir, err := os.MkdirTemp("", "quark-install-")
		if err != nil {
			t.Fatal(err)
		}
		installation.dir = dir
		makeIt(t, dir, "install")
	})
	if _, err := os.Stat(filepath.Join(installation.dir, "usr/bin")); err != nil {
		t.Skip("the installation failed: see the first of these tests")
	}
	return installation.dir
}

// filesBelow returns the paths of the files below a directory, relative to it, each with a leading
// slash.
func filesBelow(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

// commands returns the names of the commands in usr/bin.
func commands(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, path := range filesBelow(t, filepath.Join(dir, "usr/bin")) {
		names = append(names, strings.TrimPrefix(path, "/"))
	}
	if !slices.Contains(names, "quark-mon") {
		t.Fatalf("installed commands: %q", names)
	}
	return names
}

func TestInstalledFiles(t *testing.T) {
	dir := installed(t)
	want := listed(t, "files")
	if got := filesBelow(t, dir); !slices.Equal(got, want) {
		t.Errorf("got installed files %q, want %q as in packaging/files", got, want)
	}
	for _, c := range commands(t, dir) {
		if out, err := exec.Command(filepath.Join(dir, "usr/bin", c), "-V").Output(); err != nil || string(out) != c+" version "+version+"\n" {
			t.Errorf("%s -V: got %q, error %v", c, out, err)
		}
		for _, place := range []string{"share/man/man8/" + c + ".8.gz", "share/bash-completion/completions/" + c,
			"share/zsh/site-functions/_" + c, "share/fish/vendor_completions.d/" + c + ".fish"} {
			if !slices.Contains(want, "/usr/"+place) {
				t.Errorf("%s has no %s", c, place)
			}
		}
	}
	for _, path := range want {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		mode := fs.FileMode(0o644)
		if filepath.Dir(path) == "/usr/bin" {
			mode = 0o755
		}
		if info.Mode() != mode || info.Size() == 0 {
			t.Errorf("%s: got mode %v, %d bytes", path, info.Mode(), info.Size())
		}
	}
}

// Root often has no Go, so the results of an earlier make release are installed and removed without
// it.
func TestInstallWithoutGo(t *testing.T) {
	all := installed(t) // make release has run
	dir := t.TempDir()
	const without = "GO=/nonexistent/go"
	makeIt(t, dir, "install", without)
	if got, want := filesBelow(t, dir), filesBelow(t, all); !slices.Equal(got, want) {
		t.Errorf("got installed files %q, want %q as with Go", got, want)
	}
	if out := makeIt(t, dir, "uninstall", without); out != "" {
		t.Errorf("make uninstall: got output %q", out)
	}
	if left := filesBelow(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Every command is installed.
func TestAllCommandsAreInstalled(t *testing.T) {
	list, err := os.ReadFile("files")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../cmd/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no commands", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		if !regexp.MustCompile(`(?m)^command ` + name + `$`).Match(list) {
			t.Errorf("packaging/files does not install %s", name)
		}
	}
}

// Together the packages have all lines of the list, and only one has the service with its options.
func TestPackages(t *testing.T) {
	var all []string
	for name, commands := range map[string][]string{
		"quark": {"quark-exitsnoop", "quark-mon"}, "quark-export": {"quark-export"},
		"quark-tools": {"quark-btf", "quark-fidelity", "quark-matrix", "quark-test"},
	} {
		paths := listed(t, "files", "PACKAGE="+name)
		all = append(all, paths...)
		for _, c := range commands {
			if !slices.Contains(paths, "/usr/bin/"+c) || !slices.Contains(paths, "/usr/share/man/man8/"+c+".8.gz") {
				t.Errorf("%s has no %s, or no page of it", name, c)
			}
		}
		for _, path := range []string{"/etc/default/quark-mon", "/usr/lib/systemd/system/quark-mon.service"} {
			if slices.Contains(paths, path) != (name == "quark") {
				t.Errorf("%s and %s", name, path)
			}
		}
		if _, err := os.Stat("nfpm/" + name + ".yaml"); err != nil {
			t.Error(err)
		}
	}
	if slices.Sort(all); !slices.Equal(all, listed(t, "files")) {
		t.Errorf("the packages contain %q", all)
	}
}

func TestUninstall(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(installed(t))); err != nil {
		t.Fatal(err)
	}
	const others = "usr/bin/another-program"
	if err := os.WriteFile(filepath.Join(dir, others), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	makeIt(t, dir, "uninstall")
	if left := filesBelow(t, dir); !slices.Equal(left, []string{"/" + others}) {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/share/doc/quark")); err == nil {
		t.Error("quark's own directory is left")
	}
	makeIt(t, dir, "uninstall") // again, without any files
}

// The library is installed as listed, a program compiles with it, and uninstall removes all of it.
func TestLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the library")
	}
	for _, needed := range []string{"gcc", "pkg-config"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skipf("needs %s", needed)
		}
	}
	dir := t.TempDir()
	const libdir = "LIBDIR=/usr/lib/some-machine"
	makeIt(t, dir, "install-library", libdir)
	want := listed(t, "library", libdir)
	if got := filesBelow(t, dir); !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("got installed files %q, want %q as in packaging/library", got, want)
	}
	pages, err := filepath.Glob("../docs/*.3")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages of section 3", err)
	}
	for _, page := range pages {
		if !slices.Contains(want, "/usr/share/man/man3/"+filepath.Base(page)+".gz") {
			t.Errorf("packaging/library does not name %s", page)
		}
	}
	header, err := os.ReadFile(filepath.Join(dir, "usr/include/quark.h"))
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile(`(?m)\b(quark_\w+)\(`).FindAllSubmatch(header, -1)
	if len(functions) < 10 {
		t.Fatalf("got %d functions in quark.h", len(functions))
	}
	for _, f := range functions {
		if page := fmt.Sprintf("/usr/share/man/man3/%s.3.gz", f[1]); !slices.Contains(want, page) {
			t.Errorf("missing page %s", page)
		} else if _, err := os.ReadFile(filepath.Join(dir, page)); err != nil {
			t.Error(err)
		}
	}

	pc := exec.Command("pkg-config", "--define-variable=prefix="+dir+"/usr", "--cflags", "--libs", "quark = "+version[1:])
	pc.Env = append(os.Environ(), "PKG_CONFIG_LIBDIR="+dir+"/usr/lib/some-machine/pkgconfig")
	flags, err := pc.Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "monitor")
	args := append([]string{filepath.Join(dir, "usr/share/doc/libquark/examples/monitor.c"), "-o", program}, strings.Fields(string(flags))...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Errorf("gcc %q: %v\n%s", args, err, out)
	}

	makeIt(t, dir, "uninstall-library", libdir)
	if left := filesBelow(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr/share/doc/libquark")); err == nil {
		t.Error("the library's own directory is left")
	}
}

// The scripts of shells call the command.
func TestCompletions(t *testing.T) {
	dir := installed(t)
	for _, c := range commands(t, dir) {
		for _, place := range []string{"bash-completion/completions/" + c, "zsh/site-functions/_" + c, "fish/vendor_completions.d/" + c + ".fish"} {
			script, err := os.ReadFile(filepath.Join(dir, "usr/share", place))
			if err != nil || !bytes.Contains(script, []byte("__complete")) || !bytes.Contains(script, []byte(c)) {
				t.Errorf("%s: got error %v, %d bytes", place, err, len(script))
			}
		}
		out, err := exec.Command(filepath.Join(dir, "usr/bin", c), "__complete", "--vers").Output()
		if err != nil || !bytes.HasPrefix(out, []byte("--version\t")) {
			t.Errorf("%s: --vers completes to %q, error %v", c, out, err)
		}
	}
}
