package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMulticall builds a binary with two commands and calls it by each name.
func TestMulticall(t *testing.T) {
	t.Chdir("..") // the module's root
	dir := t.TempDir()
	binary := filepath.Join(dir, "all")
	if out, err := exec.Command("initramfs/multicall.sh", binary, "cmd/quark-mon", "cmd/quark-test").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"quark-mon": "quark-mon version ", "quark-test": "quark-test version ", "a-copy": "quark-test version "} {
		path := filepath.Join(dir, name)
		if err := os.Link(binary, path); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "-V")
		cmd.Args[0] = "quark-exitsnoop" // does not matter
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s -V: %v: %s", name, err, out)
		}
	}
	for dir, want := range map[string]string{"docs": "docs", "engine": "engine has no func main"} {
		if out, err := exec.Command("initramfs/multicall.sh", binary, dir).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: error %v: %s", dir, err, out)
		}
	}
}

// TestImageFiles names a missing file, which must be an error.
func TestImageFiles(t *testing.T) {
	cmd := exec.Command("./build.sh", "initramfs-debug.gz")
	cmd.Env = append(os.Environ(), "FILES=initramfs/build.sh no/such.file")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "FILES: no readable file no/such.file") {
		t.Errorf("error %v: %s", err, out)
	}
}
