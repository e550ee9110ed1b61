package distropkg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/distropkg/distropkgtest"
)

// long is a file that is longer than the buffers on its way.
var long = bytes.Repeat([]byte("kernel "), 100_001)

func sample(arch, packing string) distropkgtest.Package {
	return distropkgtest.Package{Name: "kernel-core", Version: "4.18.0", Release: "553.el8_10", Arch: arch, Packing: packing, Files: []distropkgtest.File{
		{Name: "/boot/config-4.18.0", Body: []byte("CONFIG_BPF=y\n")},
		{Name: "/lib/modules/4.18.0/build", Body: []byte("/usr/src/kernels"), Link: true},
		{Name: "/lib/modules/4.18.0/vmlinuz", Body: long},
		{Name: "/lib/modules/4.18.0/zero", Body: nil},
	}}
}

func describe(p *Package) (text string, err error) {
	text = fmt.Sprintf("%s %s %s\n", p.Name, p.Version, p.Arch)
	for {
		f, err := p.Next()
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		body := []byte("not read")
		if f.Link == "" && !strings.HasSuffix(f.Name, "config-4.18.0") {
			if body, err = io.ReadAll(p); err != nil {
				return text, err
			}
			if bytes.Equal(body, long) {
				body = []byte("the long one")
			}
		}
		text += fmt.Sprintf("%s %d %q %s\n", f.Name, f.Size, f.Link, body)
	}
}

func TestPackages(t *testing.T) {
	dir := t.TempDir()
	for _, packing := range []string{"", "gzip", "zstd", "xz"} {
		for _, kind := range []string{"deb", "rpm"} {
			path := filepath.Join(dir, "p."+kind)
			switch {
			case kind == "rpm":
				sample("x86_64", packing).WriteRPM(t, path)
			case packing != "xz":
				sample("amd64", packing).WriteDeb(t, path)
			default:
				continue
			}
			p, err := Open(path)
			if err != nil {
				t.Fatalf("%s in %s: %v", kind, packing, err)
			}
			got, err := describe(p)
			link := 0 // what tar says of a link; an rpm has the length of the target
			if kind == "rpm" {
				link = len("/usr/src/kernels")
			}
			want := fmt.Sprintf(`kernel-core 4.18.0-553.el8_10 amd64
boot/config-4.18.0 13 "" not read
lib/modules/4.18.0/build %d "/usr/src/kernels" not read
lib/modules/4.18.0/vmlinuz %d "" the long one
lib/modules/4.18.0/zero 0 "" 
`, link, len(long))
			if err != nil || got != want {
				t.Errorf("%s in %q: %v\n%s, want\n%s", kind, packing, err, got, want)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			damage(t, path)
		}
	}
}

// damage cuts a package at many places: that is an error each time, from Open or from the files.
func damage(t *testing.T, path string) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole)-32; n += len(whole)/60 + 1 {
		p, err := read(bytes.NewReader(whole[:n]))
		if err == nil {
			_, err = describe(p)
			p.Close()
		}
		if err == nil {
			t.Errorf("%s cut to %d of %d bytes: no error", path, n, len(whole))
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "lzma.rpm")
	sample("riscv64", "lzma").WriteRPM(t, packed)
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("!<arch> is no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		packed: "gzip, xz, zstd or bzip2 is wanted", text: "neither a deb nor an rpm", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", path, err)
		}
	}
	if _, err := Open(text); !errors.Is(err, ErrNoPackage) {
		t.Errorf("error %v", err)
	}
	if goArch("riscv64") != "riscv64" || clean("../../etc/passwd") != "etc/passwd" {
		t.Error("an architecture or a name is changed")
	}
}

func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	for _, packing := range []string{"", "gzip", "zstd"} {
		small := sample("x86_64", packing)
		small.Files = slices.Clone(small.Files[:2])
		for kind, write := range map[string]func(testing.TB, string){"deb": small.WriteDeb, "rpm": small.WriteRPM} {
			path := filepath.Join(dir, kind)
			write(f, path)
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	// What is in a packed archive no mutation reaches.
	f.Add([]byte("070701" + strings.Repeat("00000000", 13) + "TRAILER!!!\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, p := range []*Package{{files: &cpioFiles{r: bytes.NewReader(data)}}, nil} {
			if p == nil {
				var err error
				if p, err = read(bytes.NewReader(data)); err != nil {
					continue
				}
			}
			for {
				file, err := p.Next()
				if err != nil {
					break
				}
				if strings.HasPrefix(file.Name, "/") || strings.HasPrefix(file.Name, "../") {
					t.Errorf("name %q", file.Name)
				}
				io.CopyN(io.Discard, p, 1<<20)
			}
			p.Close()
		}
	})
}
