package main

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/cpio"
)

// fakeELF writes a minimal ELF file for machine, with a PT_INTERP program header if interp is set.
func fakeELF(t *testing.T, path string, machine elf.Machine, interp bool) string {
	t.Helper()
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1,
		Ehsize: 64, Phentsize: 56, Shentsize: 64,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64)
	h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	h.Ident[elf.EI_VERSION] = 1
	var buf bytes.Buffer
	if interp {
		h.Phoff, h.Phnum = 64, 1
	}
	binary.Write(&buf, binary.LittleEndian, h)
	if interp {
		binary.Write(&buf, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP)})
	}
	buf.WriteString(filepath.Base(path))
	if err := os.WriteFile(path, buf.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func unpack(t *testing.T, gz []byte) []cpio.Record {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	if !zr.ModTime.IsZero() || zr.Name != "" {
		t.Errorf("got gzip header with time %v, name %q, want neither", zr.ModTime, zr.Name)
	}
	raw, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.EOFReader{RecordReader: cpio.Newc.Reader(bytes.NewReader(raw))})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func content(t *testing.T, r cpio.Record) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(r, 0, int64(r.FileSize)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImage(t *testing.T) {
	dir := t.TempDir()
	img := Image{
		Arch: "amd64",
		Init: fakeELF(t, filepath.Join(dir, "some-init"), elf.EM_X86_64, false),
		Binaries: []string{
			fakeELF(t, filepath.Join(dir, "quark-test"), elf.EM_X86_64, false),
			fakeELF(t, filepath.Join(dir, "quark-mon"), elf.EM_X86_64, false),
		},
		Multi: fakeELF(t, filepath.Join(dir, "several"), elf.EM_X86_64, false),
		Names: []string{"two", "one"},
		Files: []string{filepath.Join(dir, "types.btf")},
	}
	if err := os.WriteFile(img.Files[0], []byte("types"), 0o600); err != nil {
		t.Fatal(err)
	}
	var first bytes.Buffer
	if err := img.Write(&first); err != nil {
		t.Fatal(err)
	}

	records := unpack(t, first.Bytes())
	byName := make(map[string]cpio.Record)
	var names []string
	for _, r := range records {
		if parent := filepath.Dir(r.Name); parent != "." {
			if _, ok := byName[parent]; !ok {
				t.Errorf("%s comes before its directory", r.Name)
			}
		}
		byName[r.Name] = r
		names = append(names, r.Name)
		if r.MTime != 0 || r.UID != 0 || r.GID != 0 {
			t.Errorf("%s: mtime %d, uid %d, gid %d, all want 0", r.Name, r.MTime, r.UID, r.GID)
		}
	}
	want := []string{
		"bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var", "var/empty",
		"dev/console", "dev/null", "etc/passwd", "etc/group", "init", "bin/one", "bin/two", "bin/quark-mon", "bin/quark-test", "types.btf",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, mode := range map[string]uint64{
		"init": cpio.S_IFREG | 0o755, "bin/quark-mon": cpio.S_IFREG | 0o755, "tmp": cpio.S_IFDIR | 0o1777,
		"dev/console": cpio.S_IFCHR | 0o600, "etc/passwd": cpio.S_IFREG | 0o644, "types.btf": cpio.S_IFREG | 0o644,
	} {
		if got := byName[name].Mode; got != mode {
			t.Errorf("mode of %s = %#o, want %#o", name, got, mode)
		}
	}
	if c := byName["dev/console"]; c.Rmajor != 5 || c.Rminor != 1 {
		t.Errorf("dev/console is %d:%d, want 5:1", c.Rmajor, c.Rminor)
	}
	for name, text := range map[string]string{"bin/one": "several", "bin/two": ""} {
		r := byName[name]
		if got := content(t, r); !strings.HasSuffix(got, text) || text == "" && got != "" {
			t.Errorf("%s: got %d bytes, want contents only in the first hard link", name, len(got))
		}
		if r.Ino == 0 || r.Ino != byName["bin/one"].Ino || r.NLink < 2 {
			t.Errorf("%s: inode %d, %d links: it is not a hard link", name, r.Ino, r.NLink)
		}
	}
	if got := content(t, byName["types.btf"]); got != "types" {
		t.Errorf("types.btf: got content %q", got)
	}
	if got := content(t, byName["init"]); !strings.HasSuffix(got, "some-init") {
		t.Errorf("init: got content %q", got)
	}

	t.Run("reproducible", func(t *testing.T) {
		img.Binaries = []string{img.Binaries[1], img.Binaries[0]} // order must not matter
		for _, path := range append(img.Binaries, img.Init) {
			// The mode and time of the files have no effect either.
			if err := os.Chmod(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var second bytes.Buffer
		if err := img.Write(&second); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Error("two builds differ")
		}
	})
}

func TestImageRefuses(t *testing.T) {
	dir := t.TempDir()
	init := fakeELF(t, filepath.Join(dir, "init"), elf.EM_X86_64, false)
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		img  Image
		want string
	}{
		{"architecture", Image{Arch: "vax", Init: init}, `unknown architecture "vax"`},
		{"no such file", Image{Arch: "amd64", Init: filepath.Join(dir, "none")}, "make build"},
		{"script", Image{Arch: "amd64", Init: init, Binaries: []string{script}}, "no ELF binary"},
		{"other machine", Image{Arch: "arm64", Init: init}, "EM_X86_64"},
		{"dynamic", Image{Arch: "amd64", Init: init, Binaries: []string{fakeELF(t, filepath.Join(dir, "dyn"), elf.EM_X86_64, true)}}, "CGO_ENABLED=0"},
		{"twice", Image{Arch: "amd64", Init: init, Binaries: []string{init, fakeELF(t, filepath.Join(dir, "other", "init"), elf.EM_X86_64, false)}}, "two files have the same path /bin/init"},
		{"a name twice", Image{Arch: "amd64", Init: init, Multi: init, Names: []string{"init"}, Binaries: []string{init}}, "two files have the same path /bin/init"},
		{"file of the image's", Image{Arch: "amd64", Init: init, Files: []string{init}}, "two files have the same path /init"},
		{"no such plain file", Image{Arch: "amd64", Init: init, Files: []string{filepath.Join(dir, "none")}}, "add none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.img.Write(io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRunCleansUpOnError(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "image.gz")
	if err := run([]string{"-o", out, "-init", filepath.Join(dir, "none"), "x"}, io.Discard); err == nil {
		t.Fatal("without an init: got no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
