package distropkg

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Package is an open package.
type Package struct {
	Name    string
	Version string // of Debian, or rpm's VERSION-RELEASE
	Arch    string // GOARCH; the package's own word for one that quark does not support

	files  files
	closes []io.Closer // in the order of opening
}

// File is a file in a package.
type File struct {
	Name string // without a slash in front
	Size int64
	Link string // of a symbolic link, its target
}

// files reads the files of a package. next skips what was not read of the one before.
type files interface {
	next() (File, error)
	io.Reader
}

// arches maps the words of packages to GOARCH.
var arches = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

func goArch(word string) string {
	if arch := arches[word]; arch != "" {
		return arch
	}
	return word
}

// ErrNoPackage means that a file is neither a deb nor an rpm.
var ErrNoPackage = errors.New("neither a deb nor an rpm")

// Is reports whether a file begins as a package does. head are its first 8 bytes or more.
func Is(head []byte) bool {
	return strings.HasPrefix(string(head), debMagic) || strings.HasPrefix(string(head), rpmMagic)
}

// Open opens a package.
func Open(name string) (*Package, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	p, err := read(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read package %s: %w", name, err)
	}
	p.closes = append([]io.Closer{f}, p.closes...)
	return p, nil
}

func read(f io.Reader) (*Package, error) {
	r := bufio.NewReaderSize(f, 1<<16)
	head, _ := r.Peek(len(debMagic)) // a shorter file has no magic
	p := new(Package)
	var err error
	switch {
	case string(head) == debMagic:
		err = p.readDeb(r)
	case strings.HasPrefix(string(head), rpmMagic):
		err = p.readRPM(r)
	default:
		err = ErrNoPackage
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Next returns the next regular file or symbolic link, which Read then reads. It returns io.EOF
// after the last one.
func (p *Package) Next() (File, error) {
	f, err := p.files.next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the files of package %s: %w", p.Name, err)
	}
	return f, err
}

// Read reads the file that Next returned, up to io.EOF.
func (p *Package) Read(b []byte) (int, error) { return p.files.Read(b) }

// Close closes the package.
func (p *Package) Close() (err error) {
	for i := len(p.closes) - 1; i >= 0; i-- {
		err = errors.Join(err, p.closes[i].Close())
	}
	p.closes = nil
	return err
}

// clean returns the name of a file as a path below the root, whatever the package has.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
