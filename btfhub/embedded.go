package btfhub

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// archive is written by 'make btfhub'.
//
//go:embed archive.bin
var archive []byte

// Embedded returns the archive that is part of the binary.
func Embedded() (*Archive, error) { return ReadArchive(archive) }

// Types returns the types of a kernel of the archive.
func (a *Archive) Types(e Entry) (*btf.Spec, error) {
	raw, err := a.BTF(e)
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read types of %s in the archive: %w", e.Release, err)
	}
	return spec, nil
}

// Open returns the types that [Archive.Lookup] finds. Their origin is
// "RELEASE (exact)" or "RELEASE (guess for RELEASE)".
func (a *Archive) Open(release, arch string) (*Kernel, error) {
	e, exact, err := a.Lookup(release, arch)
	if err != nil {
		return nil, err
	}
	spec, err := a.Types(e)
	if err != nil {
		return nil, err
	}
	origin := fmt.Sprintf("%s (exact)", e.Release)
	if !exact {
		origin = fmt.Sprintf("%s (guess for %s)", e.Release, release)
	}
	return &Kernel{spec, origin, exact}, nil
}
