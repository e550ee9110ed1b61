package debian

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// Package is a binary package as apt-cache describes it.
type Package struct {
	Name    string
	Version string
	Arch    string
	Size    int64
	Depends string // Depends and Pre-Depends, as in the control file
	SHA256  string // of the file
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

// ParsePackages reads stanzas as apt-cache show prints them. It ignores other fields and
// continuation lines, and drops a stanza without name or version.
func ParsePackages(r io.Reader) ([]Package, error) {
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
		case "Depends", "Pre-Depends":
			p.Depends = strings.TrimPrefix(p.Depends+", "+value, ", ")
		case "SHA256":
			p.SHA256 = value
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
