package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/btfhub"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		want   string // on standard output or error
	}{
		{[]string{"-h"}, 0, "  quark-matrix COMMAND [options]"},
		{[]string{"merge", "-h"}, 0, "  quark-matrix merge -o DIR DIR..."},
		{nil, 2, "name a command: add, boot, "},
		{[]string{"fly"}, 2, `unknown command "fly"`},
		{[]string{"-V"}, 0, "quark-matrix version "},
		{[]string{"run", "--nonsense"}, 2, "unknown flag: --nonsense (see quark-matrix run -h)"},
		{[]string{"run", "-j", "0"}, 2, "want 1 or more"},
		{[]string{"run", "--deadline-test", "0s"}, 2, "more than 0"},
		{[]string{"run", "-e", "A"}, 2, "NAME=VALUE"},
		{[]string{"list", "--images", "/nonexistent", "no-such"}, 2, `no kernel "no-such"`},
		{[]string{"list", "--images", "/nonexistent", "--arch", "amd64", "6.1-cloud"}, 2, "make kernel-images"},
		{[]string{"report", "-o", "/nonexistent"}, 2, "make test-kernel"},
		{[]string{"report", "x"}, 2, `unexpected operand "x"`},
		{[]string{"merge", "x"}, 2, "merge needs -o"},
		{[]string{"add", "-h"}, 0, "  quark-matrix add "},
		{[]string{"add"}, 2, "add needs an image"},
		{[]string{"add", "main.go"}, 2, "main.go: no kernel image"},
	} {
		var out, errs bytes.Buffer
		status := dispatch(context.Background(), tt.args, &out, &errs)
		if status != tt.status || !strings.Contains(out.String()+errs.String(), tt.want) {
			t.Errorf("%q: status %d, want %d and %q; output:\n%s%s", tt.args, status, tt.status, tt.want, &out, &errs)
		}
	}
}

// TestAdd adds images, and lists their guests.
func TestAdd(t *testing.T) {
	archive, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known := archive.Kernels()[len(archive.Kernels())-1] // amd64 comes first
	image := make([]byte, 64)
	copy(image[56:], "ARM\x64")
	image = append(append(image, "Linux version "+known.Release+" (a@b)\x00"...), archive.BTF(known)...)
	dir := t.TempDir()
	vmlinuz := filepath.Join(dir, "vmlinuz")
	if err := os.WriteFile(vmlinuz, image, 0o644); err != nil {
		t.Fatal(err)
	}
	const rhel = "5.14.0-427.13.1.el9_4.aarch64"
	other := append(make([]byte, 64), "Linux version "+rhel+" (a@b)\x00"...)
	copy(other[56:], "ARM\x64")
	bare := filepath.Join(dir, "other")
	if err := os.WriteFile(bare, other, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		want []string // lines begin with
	}{
		{[]string{"add", "--images", dir, vmlinuz}, []string{"local/" + known.Release + ": on arm64"}},
		{[]string{"add", "--images", dir, bare}, []string{"local/" + rhel + ": on arm64", "the kernel has no BTF: make BTF"}},
		{[]string{"list", "--images", dir, "--arch", "arm64", "--initramfs", "arm64=i.gz", "local/*"}, []string{
			"local/" + rhel + " ", "local/" + known.Release + " ", "local/" + known.Release + "-hidden ",
		}},
	} {
		var out, errs bytes.Buffer
		status := dispatch(context.Background(), step.args, &out, &errs)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if status != 0 || len(lines) != len(step.want) {
			t.Fatalf("%s: status %d, %s%s", step.args[0], status, &out, &errs)
		}
		for i, want := range step.want {
			if !strings.HasPrefix(lines[i], want) {
				t.Errorf("%s: %q, want %q", step.args[0], lines[i], want)
			}
		}
	}
}

// TestRunAndMerge runs shards with a script in place of qemu, and merges the results.
func TestRunAndMerge(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	local := filepath.Join(dir, "images", "local")
	if err := os.MkdirAll(local, 0o755); err != nil {
		t.Fatal(err)
	}
	bzImage := make([]byte, 1024)
	copy(bzImage[0x202:], "HdrS")
	for name, content := range map[string]string{
		filepath.Join(local, "one"):     string(bzImage),
		filepath.Join(dir, "initramfs"): "x",
		filepath.Join(dir, "qemu"):      "#!/bin/sh\n[ $1 = --version ] && echo a machine || echo '[    1.000000] Kernel panic - not syncing: no way'\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if status := dispatch(context.Background(), args, &out, &out); status != want {
			t.Fatalf("%q: status %d, want %d:\n%s", args, status, want, &out)
		}
		return out.String()
	}
	common := []string{"--images", filepath.Join(dir, "images"), "--qemu", filepath.Join(dir, "qemu"), "--arch", "amd64",
		"--initramfs", "amd64=" + filepath.Join(dir, "initramfs"), "local/*"}
	one, two, all := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "all")
	run(2, append([]string{"run", "--shard", "3/2", "-o", one}, common...)...)
	run(1, append([]string{"run", "--shard", "1/2", "-o", one}, common...)...)
	run(1, append([]string{"run", "--shard", "2/2", "-o", two}, common...)...)
	out := run(1, "merge", "-o", all, one, two)
	for _, want := range []string{"present  quark-test  crash", "hidden   quark-test  crash", "Kernel panic - not syncing: no way", "0 passed, 2 failed, 0 skipped\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for _, file := range []string{"index.html", "results.json", "guests/local-one/console.log", "guests/local-one-hidden/console.log"} {
		if st, err := os.Stat(filepath.Join(all, file)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	// One run was killed: merge prints the existing results and names the missing results.
	if err := os.MkdirAll(filepath.Join(dir, "3"), 0o755); err != nil {
		t.Fatal(err)
	}
	out = run(2, "merge", "-o", filepath.Join(dir, "part"), one, filepath.Join(dir, "3"))
	for _, want := range []string{"local/one-hidden: lost: this guest has not run\n", "0 passed, 2 failed, 0 skipped\n", "no results in " + filepath.Join(dir, "3")} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	run(2, "merge", "-o", filepath.Join(dir, "none"), filepath.Join(dir, "3"))
	if again := run(0, "report", "-o", all); !strings.HasSuffix(again, "0 passed, 2 failed, 0 skipped\n") {
		t.Errorf("report:\n%s", again)
	}
}
