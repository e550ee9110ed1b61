// Package distropkgtest makes packages, deb and rpm, for tests.
package distropkgtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"testing"

	"github.com/google/rpmpack"
	"github.com/klauspost/compress/zstd"
)

// Package is a package to be made.
type Package struct {
	Name, Version, Release string
	Arch                   string // the distribution's word
	Files                  []File // in their order

	// Packing is gzip or zstd, for an rpm also xz or lzma. "" is none in a deb and gzip in an
	// rpm.
	Packing string
}

// File is a file of a package.
type File struct {
	Name string // with a slash in front
	Body []byte
	Link bool // a symbolic link, to Body
}

// WriteDeb writes the package as a deb.
func (p Package) WriteDeb(t testing.TB, path string) {
	t.Helper()
	control := fmt.Sprintf("Package: %s\nVersion: %s-%s\nArchitecture: %s\nDescription: made by a test\n Version: not this\n", p.Name, p.Version, p.Release, p.Arch)
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	suffix := map[string]string{"gzip": ".gz", "zstd": ".zst"}[p.Packing]
	for _, m := range []struct {
		name string
		body []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar" + suffix, p.pack(t, archive(t, []File{{Name: "/md5sums"}, {Name: "/control", Body: []byte(control)}}))},
		{"data.tar" + suffix, p.pack(t, archive(t, p.Files))},
	} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, 0, 0, 0, 0o100644, len(m.body))
		b.Write(m.body)
		if len(m.body)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	write(t, path, b.Bytes())
}

func archive(t testing.TB, files []File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h *tar.Header, body []byte) {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	write(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	for _, f := range files {
		if f.Link {
			write(&tar.Header{Name: "." + f.Name, Typeflag: tar.TypeSymlink, Linkname: string(f.Body), Mode: 0o777}, nil)
			continue
		}
		write(&tar.Header{Name: "." + f.Name, Size: int64(len(f.Body)), Mode: 0o644}, f.Body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (p Package) pack(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	switch p.Packing {
	case "":
		return content
	case "gzip":
		w := gzip.NewWriter(&b)
		w.Write(content) // a buffer takes all
		w.Close()
	case "zstd":
		w, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(content)
		w.Close()
	default:
		t.Fatalf("no deb is packed with %s here", p.Packing)
	}
	return b.Bytes()
}

// WriteRPM writes the package as an rpm.
func (p Package) WriteRPM(t testing.TB, path string) {
	t.Helper()
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{Name: p.Name, Version: p.Version, Release: p.Release, Arch: p.Arch, Compressor: p.Packing})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range p.Files {
		mode := uint(0o100644)
		if f.Link {
			mode = 0o120777
		}
		r.AddFile(rpmpack.RPMFile{Name: f.Name, Body: f.Body, Mode: mode, Owner: "root", Group: "root"})
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.Bytes())
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
