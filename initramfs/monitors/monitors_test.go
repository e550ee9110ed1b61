package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"github.com/quark-linux/quark/internal/harness/debian"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func TestPrograms(t *testing.T) {
	var names []string
	for _, p := range programs() {
		names = append(names, p.pkg+" "+p.as)
	}
	for _, want := range []string{"forkstat forkstat", "bpftrace bpftrace", "linux-perf perf", "strace strace", "auditd auditd", "auditd auditctl", "dash sh", "libbpf-tools execsnoop"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if !slices.Contains(roots(), "linux-perf") || slices.Contains(roots(), "") {
		t.Errorf("got packages %q", roots())
	}
}

func TestClosure(t *testing.T) {
	archive := map[string]debian.Package{
		"a":      {Name: "a", Version: "1", Depends: "libx (>= 2), perl:any, libgone | libz:any"},
		"libx":   {Name: "libx", Version: "2", Depends: "libz, zlib1g (>= 1:1.1)"},
		"libz":   {Name: "libz", Version: "3", Depends: "libx"},
		"zlib1g": {Name: "zlib1g", Version: "4"},
		"perl":   {Name: "perl", Version: "5"},
	}
	newest := func(names []string) (map[string]debian.Package, error) {
		found := make(map[string]debian.Package)
		for _, n := range names {
			if p, ok := archive[n]; ok {
				found[n] = p
			}
		}
		return found, nil
	}
	list, err := closure([]string{"a"}, newest)
	var got []string
	for _, p := range list {
		got = append(got, p.String())
	}
	if diff := cmp.Diff([]string{"a 1", "libx 2", "libz 3", "zlib1g 4"}, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := closure([]string{"b"}, newest); err == nil || !strings.Contains(err.Error(), "no package b") {
		t.Errorf("got error %v", err)
	}
	broken := errors.New("broken")
	if _, err := closure([]string{"a"}, func([]string) (map[string]debian.Package, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got error %v", err)
	}
}

func TestTreeRead(t *testing.T) {
	tr := &tree{files: map[string][]byte{"lib/t/libx.so.1.2": []byte("x")}, links: map[string]string{
		"lib/t/libx.so.1": "lib/t/libx.so.1.2", "lib64/ld.so": "/usr/lib/t/libx.so.1", "lib/loop": "lib/loop",
	}}
	for name, want := range map[string]bool{
		"usr/lib/t/libx.so.1.2": true, "/lib/t/libx.so.1": true, "lib64/ld.so": true, "lib/loop": false, "lib/none": false,
	} {
		content, ok := tr.read(name)
		if ok != want || ok && string(content) != "x" {
			t.Errorf("%s: got %q, found %v", name, content, ok)
		}
	}
}

// TestNeed finds the libraries of this machine's shell.
func TestNeed(t *testing.T) {
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	tr := &tree{files: make(map[string][]byte), links: make(map[string]string)}
	for _, pattern := range []string{"/lib*/ld-linux*", "/lib/*-linux-gnu/ld-linux*", "/lib/*-linux-gnu/libc.so*"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if content, err := os.ReadFile(path); err == nil {
				tr.files[merged(path)] = content
			}
		}
	}
	f, err := elf.NewFile(bytes.NewReader(sh))
	if err != nil {
		t.Skip(err)
	}
	libs, _ := f.ImportedLibraries()
	if len(libs) != 1 || tr.files["lib/"+triplets[f.Machine]+"/"+libs[0]] == nil {
		t.Skip("the shell needs libraries other than libc, or libc is not at Debian's path")
	}
	wanted := make(map[string][]byte)
	if err := tr.need(sh, "sh", wanted); err != nil {
		t.Fatal(err)
	}
	for _, lib := range libs {
		if wanted["usr/lib/"+triplets[f.Machine]+"/"+lib] == nil {
			t.Errorf("%s is missing", lib)
		}
	}
	for name := range tr.files {
		if strings.HasSuffix(name, libs[0]) {
			delete(tr.files, name)
		}
	}
	if err := tr.need(sh, "sh", make(map[string][]byte)); err == nil || !strings.Contains(err.Error(), "which no package contains") {
		t.Errorf("without %s: got error %v", libs[0], err)
	}
	if err := tr.need([]byte("#!/bin/sh\n"), "script", wanted); err == nil {
		t.Error("a script: got no error")
	}
	static := filepath.Join(t.TempDir(), "static")
	if err := tinyelf.Write(static, 0); err != nil {
		t.Fatal(err)
	}
	content, _ := os.ReadFile(static)
	before := len(wanted)
	if err := tr.need(content, "static", wanted); err != nil || len(wanted) != before {
		t.Errorf("a static program: error %v", err)
	}
}

func TestPack(t *testing.T) {
	b, err := pack(map[string][]byte{"bin/sh": []byte("s"), "usr/lib/t/libc.so": []byte("c")}, "sh 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := pack(map[string][]byte{"usr/lib/t/libc.so": []byte("c"), "bin/sh": []byte("s")}, "sh 1\n"); !bytes.Equal(b, again) {
		t.Error("two archives of the same files differ")
	}
	z, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.EOFReader{RecordReader: cpio.Newc.Reader(bytes.NewReader(raw))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	want := []string{"bin", "usr", "usr/lib", "usr/lib/t", "bin/sh", "usr/lib/t/libc.so", packagesFile, "var/run"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsage(t *testing.T) {
	var out bytes.Buffer
	if status := command(t.Context(), []string{"x"}, &out); status != 2 || !strings.Contains(out.String(), "unexpected operand") {
		t.Errorf("got status %d, output %s", status, &out)
	}
}
