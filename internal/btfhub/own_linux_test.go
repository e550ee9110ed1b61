package btfhub

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExcerptOfHost(t *testing.T) {
	f, err := os.Open(KernelBTF)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if err := new(Kernel).excerpt(f); err != nil { // Open would be slower without it
		t.Fatal(err)
	}
	k, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Open(Options{Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	if k.Origin != KernelBTF || whole.Origin != KernelBTF || !k.Exact || !whole.Exact {
		t.Errorf("origins %q and %q", k.Origin, whole.Origin)
	}
	if got, want := Resolve(k.Spec), Resolve(whole.Spec); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if types, err := whole.Spec.AnyTypesByName("super_block"); err != nil || len(types) == 0 {
		t.Errorf("whole types lack super_block: %v", err)
	}
	for _, name := range OlderMembers {
		if _, ok := ResolveTargets(k.Spec, []Target{{Name: name, Alternatives: []string{name}}}).Bytes(name); !ok {
			t.Errorf("the excerpt lacks %s", name)
		}
	}
}

func TestReadTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "types")
	want := bytes.Repeat([]byte("types "), 10000)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := mapTypes(f)
	if err != nil || !bytes.Equal(mapped, want) {
		t.Errorf("mapped %d bytes, error %v", len(mapped), err)
	}
	read, err := readTypes(f, len(want))
	if err != nil || !bytes.Equal(read, want) {
		t.Errorf("read %d bytes, error %v", len(read), err)
	}
	if _, err := readTypes(f, 1); err == nil {
		t.Error("no error after the end")
	}
	for _, raw := range [][]byte{mapped, read} {
		if err := unix.Munmap(raw); err != nil {
			t.Error(err)
		}
	}
	if err := new(Kernel).excerpt(f); err == nil {
		t.Error("an excerpt of invalid BTF")
	}
}

// BenchmarkReadTypes measures the additional step on kernels before 6.16.
func BenchmarkReadTypes(b *testing.B) {
	f, err := os.Open(KernelBTF)
	if err != nil {
		b.Skip(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		raw, err := readTypes(io.NewSectionReader(f, 0, st.Size()), int(st.Size()))
		if err != nil {
			b.Fatal(err)
		}
		unix.Munmap(raw)
	}
}

func BenchmarkOpen(b *testing.B) {
	for name, o := range map[string]Options{"needed": {}, "whole": {Whole: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := Open(o)
				if err != nil {
					b.Skip(err)
				}
				if k.Origin != KernelBTF {
					b.Skip(k.Origin)
				}
			}
		})
	}
}
