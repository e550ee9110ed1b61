package distropkg

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A deb is an archive of ar(5): debian-binary, control.tar and data.tar, in this order, the last
// two packed (deb(5)).
const (
	debMagic   = "!<arch>\n"
	arHeader   = 60
	arTrailer  = "`\n"
	maxControl = 1 << 20
)

func (p *Package) readDeb(r *bufio.Reader) error {
	if _, err := r.Discard(len(debMagic)); err != nil {
		return err
	}
	described := false
	for {
		name, size, err := arNext(r)
		if errors.Is(err, io.EOF) {
			return errors.New("no data.tar in it")
		}
		if err != nil {
			return err
		}
		member := io.LimitReader(r, size)
		switch part, _, _ := strings.Cut(name, "."); {
		case part == "control" && !described:
			if err := p.readControl(member, name == "control.tar"); err != nil {
				return err
			}
			described = true
		case part == "data" && described:
			content, err := p.decompress(bufio.NewReader(member), name == "data.tar")
			if err != nil {
				return err
			}
			p.files = &debFiles{tar.NewReader(content)}
			return nil
		}
		// ar(5) pads members to an even size.
		if _, err := io.Copy(io.Discard, member); err != nil {
			return err
		}
		if size%2 == 1 {
			if _, err := r.Discard(1); err != nil {
				return err
			}
		}
	}
}

// arNext returns the name and the size of the next member of an ar archive.
func arNext(r io.Reader) (name string, size int64, err error) {
	var h [arHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return "", 0, err // io.EOF: there is none
	}
	size, err = strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
	if string(h[58:]) != arTrailer || err != nil || size < 0 {
		return "", 0, errors.New("the ar archive is damaged")
	}
	return strings.TrimRight(string(h[:16]), " /"), size, nil
}

// readControl reads the fields of the file control in control.tar, which is plain or packed.
func (p *Package) readControl(r io.Reader, plain bool) error {
	content, err := p.decompress(bufio.NewReader(r), plain)
	if err != nil {
		return err
	}
	for t := tar.NewReader(content); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("no file control in it")
		}
		if err != nil {
			return fmt.Errorf("control.tar: %w", err)
		}
		if clean(h.Name) != "control" {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(t, maxControl))
		if err != nil {
			return fmt.Errorf("control: %w", err)
		}
		for line := range bytes.Lines(b) {
			field, value, _ := strings.Cut(string(line), ":")
			switch value = strings.TrimSpace(value); field {
			case "Package":
				p.Name = value
			case "Version":
				p.Version = value
			case "Architecture":
				p.Arch = goArch(value)
			}
		}
		return nil
	}
}

// debFiles are the files of data.tar.
type debFiles struct{ tar *tar.Reader }

func (d *debFiles) Read(b []byte) (int, error) { return d.tar.Read(b) }

func (d *debFiles) next() (File, error) {
	for {
		h, err := d.tar.Next()
		if err != nil {
			return File{}, err
		}
		f := File{Name: clean(h.Name), Size: h.Size}
		switch h.Typeflag {
		case tar.TypeReg:
			return f, nil
		case tar.TypeSymlink:
			f.Link = h.Linkname
			return f, nil
		}
	}
}
