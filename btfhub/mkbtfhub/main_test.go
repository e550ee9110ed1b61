package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

const programs = "../../*/programs_*bpfel.o ../../backends/*/programs_*bpfel.o"

// TestRun builds an archive of two directories, twice.
func TestRun(t *testing.T) {
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	e := a.Kernels()[0]
	raw := a.BTF(e)
	dir := t.TempDir()
	var dirs []string
	for path, data := range map[string][]byte{
		"one/debian/6.1/amd64/6.1.0-1-amd64.btf":        raw,
		"one/debian/6.1/amd64/6.1.0-2-amd64.btf":        raw[:100], // skipped
		"two/centos/8/x86_64/4.18.0-80.el8.x86_64.btf":  raw,
		"two/debian/12/amd64/6.1.0-1-amd64.btf":         raw, // the same as in the first
		"two/ubuntu/20.04/arm64/5.4.0-42-generic.btf":   raw,
		"two/ubuntu/20.04/mips/5.4.0-42-generic.btf":    raw, // unknown architecture
		"two/ubuntu/20.04/arm64/5.4.0-42-generic.btf.x": raw, // unknown compression
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dirs = append(dirs, filepath.Join(dir, "one"), filepath.Join(dir, "two"))
	const rhel = "5.14.0-427.13.1.el9_4.aarch64"
	image := make([]byte, 64)
	copy(image[56:], "ARM\x64")
	image = append(image, "Linux version "+rhel+" (a@b)\x00"...)
	for name, body := range map[string][]byte{"vmlinuz": append(image[:len(image):len(image)], raw...), "bad": image} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, path)
	}
	out, list := filepath.Join(dir, "archive"), filepath.Join(dir, "members")
	var first []byte
	for range 2 {
		if err := run(out, list, programs, dirs); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(data, first) {
			t.Error("the same input gave other bytes")
		}
		first = data
		dirs[0], dirs[1] = dirs[1], dirs[0]
	}
	made, err := btfhub.ReadArchive(first)
	if err != nil {
		t.Fatal(err)
	}
	if n, b := len(made.Kernels()), made.Blobs(); n != 4 || b != 1 {
		t.Errorf("got %d kernels with %d different types, want 4 and 1", n, b)
	}
	if e, err := made.Lookup(rhel, "arm64"); err != nil || e.Distro != "el9" {
		t.Errorf("of an image: %v, %v", e, err)
	}

	// Without directories the archive's own kernels stay, reduced to the read members.
	writeArchive(t, out, e, withUnread(t, raw))
	if err := run(out, list, programs, nil); err != nil {
		t.Fatal(err)
	}
	if got := types(t, out, e); !bytes.Equal(got, raw) {
		t.Errorf("the archive made from itself: got %d bytes of types, want the same %d bytes", len(got), len(raw))
	}
	damaged := filepath.Join(dir, "damaged")
	if err := os.WriteFile(damaged, first[:len(first)-1], 0o644); err != nil {
		t.Fatal(err)
	}

	for _, bad := range []error{
		run(damaged, list, programs, dirs),
		run(out, list, filepath.Join(dir, "none"), dirs),
		run(out, list, programs, []string{t.TempDir()}),
		run(out, list, programs, []string{filepath.Join(dir, "missing")}),
	} {
		if bad == nil {
			t.Error("no error")
		}
	}
}

// withUnread adds an unread type to a kernel's types.
func withUnread(t *testing.T, raw []byte) []byte {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	all := []btf.Type{&btf.Struct{Name: "unread", Size: 4}}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, typ)
	}
	b, err := btf.NewBuilder(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	more, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return more
}

func writeArchive(t *testing.T, path string, e btfhub.Entry, raw []byte) {
	t.Helper()
	var b btfhub.Builder
	if err := b.Add(e, raw); err != nil {
		t.Fatal(err)
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// types returns the types of a kernel in an archive file.
func types(t *testing.T, path string, e btfhub.Entry) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		t.Fatal(err)
	}
	e, err = a.Lookup(e.Release, e.Arch)
	if err != nil {
		t.Fatal(err)
	}
	return a.BTF(e)
}
