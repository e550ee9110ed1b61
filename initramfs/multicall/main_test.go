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
	if got, hasMain := export([]byte(source), "x"); !hasMain || string(got) != want {
		t.Errorf("main %v, file:\n%s", hasMain, got)
	}
	if _, hasMain := export([]byte("package main\n"), "x"); hasMain {
		t.Error("main in a file without")
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
