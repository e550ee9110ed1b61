package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os/exec"
	"strconv"
)

// Package is a binary package as apt-cache describes it.
type Package struct {
	Name    string
	Version string
	Arch    string
	Size    int64
}

func (p Package) String() string { return p.Name + " " + p.Version }

// Same reports whether both are the same version of the same package.
func (p Package) Same(o Package) bool { return p.Name == o.Name && p.Version == o.Version }

// Older reports whether Debian version a is older than b, by dpkg's order.
func Older(a, b string) (bool, error) {
	err := exec.Command("dpkg", "--compare-versions", a, "lt", b).Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare versions %s and %s: %w", a, b, err)
	}
	return true, nil
}

// ParsePackages reads stanzas as apt-cache show prints them. It drops a stanza without name or
// version.
func ParsePackages(r io.Reader) (packages []Package, err error) {
	for stanzas := textproto.NewReader(bufio.NewReader(r)); ; {
		h, err := stanzas.ReadMIMEHeader()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return nil, fmt.Errorf("read package list: %w", err)
		}
		p := Package{Name: h.Get("Package"), Version: h.Get("Version"), Arch: h.Get("Architecture")}
		if size := h.Get("Size"); size != "" {
			var sizeErr error
			if p.Size, sizeErr = strconv.ParseInt(size, 10, 64); sizeErr != nil {
				return nil, fmt.Errorf("parse the size of %s: %w", p.Name, sizeErr)
			}
		}
		if p.Name != "" && p.Version != "" {
			packages = append(packages, p)
		}
		if end {
			return packages, nil
		}
	}
}
