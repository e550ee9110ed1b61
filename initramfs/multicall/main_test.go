package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestExport(t *testing.T) {
	source := "//go:build linux\n\n// Command x. package main\npackage main\n\nfunc (t T) main() {}\n\nfunc main() { main() }\n"
	want := "//go:build linux\n\n// Command x. package main\npackage x\n\nfunc (t T) main() {}\n\nfunc Main() { main() }\n"
	got, hasMain, err := export("x.go", []byte(source), "x")
	if err != nil || !hasMain || string(got) != want {
		t.Errorf("main %v, error %v, file:\n%s", hasMain, err, got)
	}
	if _, hasMain, err := export("y.go", []byte("package main\n"), "x"); err != nil || hasMain {
		t.Errorf("main %v, error %v in a file without", hasMain, err)
	}
	if _, _, err := export("z.go", []byte("func"), "x"); err == nil {
		t.Error("no error for what is no Go")
	}
}

// TestBinary builds a binary of two commands and calls it by each name.
func TestBinary(t *testing.T) {
	t.Chdir("../..") // the module's root
	dir := t.TempDir()
	binary := filepath.Join(dir, "all")
	if err := run(binary, "", []string{"cmd/quark-mon", "cmd/quark-test"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"quark-mon": "quark-mon ", "quark-test": "quark-test ", "a-copy": "quark-test "} {
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
	if err := run(binary, "", []string{"docs"}); err == nil {
		t.Error("no error for a command that is not there")
	}
}
