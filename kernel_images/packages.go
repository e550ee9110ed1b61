package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/internal/harness/catalogue"
)

// Package is a binary package as apt-cache describes it.
type Package struct {
	Name    string
	Version string
	Arch    string
	Size    int64
}

func (p Package) String() string { return p.Name + " " + p.Version }

// same reports whether both are one version of a package.
func (p Package) same(o Package) bool { return p.Name == o.Name && p.Version == o.Version }

// image returns the name in the cache of the package's image.
func (p Package) image() string { return imageName(p.release(), p.Version) }

// kernelPackage matches names of packages that may have an image: linux-image-* and, from 6.19 on,
// linux-binary-*, of which the unsigned one appears first. Groups: "-unsigned" or "", the series,
// the flavour, the architecture.
var kernelPackage = regexp.MustCompile(`^linux-(?:image|binary(-unsigned)?)-(\d+\.\d+)\.\d[^-]*(?:-\d[^-]*)?(?:-([a-z]+))?-([a-z0-9]+)$`)

// smallestImage is the least size of a package with an image. From 6.19 on linux-image-* is an
// empty package of 2 kB.
const smallestImage = 1 << 20

// row returns the catalogue row that the package belongs to by its name. ok is false for a package
// without an image.
func (p Package) row() (r catalogue.Row, ok bool) {
	m := kernelPackage.FindStringSubmatch(p.Name)
	if m == nil || p.Size < smallestImage || m[4] != p.Arch {
		return r, false
	}
	flavour := cmp.Or(m[3], "generic")
	return catalogue.Row{Name: m[2] + "-" + flavour + "-" + m[4], Series: m[2], Flavour: flavour, Arch: m[4]}, true
}

// matches reports whether p may have the row's image.
func matches(r catalogue.Row, p Package) bool {
	own, ok := p.row()
	return ok && (r.Series == catalogue.Newest || r.Series == own.Series) && r.Flavour == own.Flavour && r.Arch == own.Arch
}

// release returns the kernel's release, uname -r, from a package's name.
func (p Package) release() string {
	for _, prefix := range []string{"linux-image-", "linux-binary-unsigned-", "linux-binary-"} {
		if release, ok := strings.CutPrefix(p.Name, prefix); ok {
			return release
		}
	}
	return p.Name
}

func (p Package) signed() bool { return !strings.HasPrefix(p.Name, "linux-binary-unsigned-") }

// candidates returns the packages that match the row, in the order of newestFirst.
func candidates(r catalogue.Row, packages []Package) ([]Package, error) {
	found := slices.DeleteFunc(slices.Clone(packages), func(p Package) bool { return !matches(r, p) })
	return found, newestFirst(found)
}

// newestFirst sorts packages by version, newest first; of equal versions the signed package comes
// first.
func newestFirst(packages []Package) (failure error) {
	slices.SortStableFunc(packages, func(a, b Package) int {
		first := a.signed()
		if a.Version != b.Version {
			var err error
			first, err = olderVersion(b.Version, a.Version)
			failure = cmp.Or(failure, err)
		} else if a.signed() == b.signed() {
			return 0
		}
		if first {
			return -1
		}
		return 1
	})
	return failure
}

// olderVersion reports whether Debian version a is older than b, by dpkg's order.
func olderVersion(a, b string) (bool, error) {
	err := exec.Command("dpkg", "--compare-versions", a, "lt", b).Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare versions %s and %s: %w", a, b, err)
	}
	return true, nil
}

// parsePackages reads stanzas as apt-cache show prints them. It ignores other fields and
// continuation lines, and drops a stanza without name or version.
func parsePackages(r io.Reader) ([]Package, error) {
	var packages []Package
	var p Package
	flush := func() {
		if p.Name != "" && p.Version != "" {
			packages = append(packages, p)
		}
		p = Package{}
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20) // Depends of some packages is long
	for sc.Scan() {
		line := sc.Text()
		if line == "" {
			flush()
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || line[0] == ' ' || line[0] == '\t' {
			continue
		}
		value = strings.TrimSpace(value)
		switch name {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Arch = value
		case "Size":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("parse the size of %s: %w", p.Name, err)
			}
			p.Size = n
		}
	}
	flush()
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read package list: %w", err)
	}
	return packages, nil
}
