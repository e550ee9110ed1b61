package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/debian"
)

// lock maps the names of rows to their locked packages, so that everyone tests the same kernels.
// For other rows the newest package is used.
type lock map[string]Locked

// Locked is the package of a row and the checksum of its image.
type Locked struct {
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

func (l Locked) pkg() debian.Package { return debian.Package{Name: l.Package, Version: l.Version} }

// readLock reads the lock file. A missing file means an empty lock.
func readLock(path string) (lock, error) {
	l := make(lock)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock file %s: %w", path, err)
	}
	for row, e := range l {
		if row == "" || e.Package == "" || e.Version == "" || len(e.SHA256) != 64 {
			return nil, fmt.Errorf("parse the lock file %s: entry %q needs package, version and sha256", path, row)
		}
	}
	return l, nil
}

// write writes the lock file, sorted by row.
func (l lock) write(path string) error {
	b, err := json.MarshalIndent(l, "", "\t")
	if err == nil {
		err = atomicfile.Write(path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// prefer moves the locked package of a row to the front. gone is its name and version if it is not
// among the packages.
func (l lock) prefer(row string, packages []debian.Package) (ordered []debian.Package, gone string) {
	e, ok := l[row]
	if !ok {
		return packages, ""
	}
	i := slices.IndexFunc(packages, e.pkg().Same)
	if i < 0 {
		return packages, e.pkg().String()
	}
	ordered = append([]debian.Package{packages[i]}, packages[:i]...)
	return append(ordered, packages[i+1:]...), ""
}

// check compares the checksum of a package's image with the locked one.
func (l lock) check(row string, p debian.Package, sum string) error {
	e, ok := l[row]
	if !ok || !e.pkg().Same(p) || e.SHA256 == sum {
		return nil
	}
	return fmt.Errorf("the image of %s differs from the locked one: sha256 %s, want %s", p, sum, e.SHA256)
}
