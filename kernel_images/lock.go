package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/quark-linux/quark/internal/wholefile"
)

// lock has the locked entry of each row, by the row's name, so that everybody tests the same
// kernels. For a row without an entry the newest package is used.
type lock map[string]Entry

// readLock reads the lock file. Without one nothing is locked.
func readLock(path string) (lock, error) {
	l := make(lock)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	var entries []Entry
	if err == nil {
		err = json.Unmarshal(b, &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("read the lock file %s: %w", path, err)
	}
	for _, e := range entries {
		if e.Name == "" || e.Package == "" || e.Version == "" || len(e.SHA256) != 64 {
			return nil, fmt.Errorf("parse the lock file %s: entry %q wants name, package, version and sha256", path, e.Name)
		}
		l[e.Name] = e
	}
	return l, nil
}

// write writes the lock file, sorted by name.
func (l lock) write(path string) error {
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(l)) {
		entries = append(entries, l[name])
	}
	b, err := json.MarshalIndent(entries, "", "\t")
	if err != nil {
		return err
	}
	if err := wholefile.Write(path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the lock file: %w", err)
	}
	return nil
}

// prefer moves the package that a row is locked to to the front. gone is its name and version if it
// is not among the packages.
func (l lock) prefer(row string, packages []Package) (ordered []Package, gone string) {
	e, ok := l[row]
	if !ok {
		return packages, ""
	}
	i := slices.IndexFunc(packages, func(p Package) bool { return p.Name == e.Package && p.Version == e.Version })
	if i < 0 {
		return packages, e.String()
	}
	ordered = append([]Package{packages[i]}, packages[:i]...)
	return append(ordered, packages[i+1:]...), ""
}

// insteadOf returns the row's locked version if p is another package or version, else "".
func (l lock) insteadOf(row string, p Package) string {
	if e, ok := l[row]; ok && (e.Package != p.Name || e.Version != p.Version) {
		return e.Version
	}
	return ""
}

// admits reports whether a cached entry is the locked one, or replaced it when that was gone.
func (l lock) admits(cached Entry) bool {
	e, ok := l[cached.Name]
	return !ok || e.Version == cached.Version && e.Package == cached.Package || cached.InsteadOf == e.Version
}

// check compares an image with the locked checksum of its package.
func (l lock) check(got Entry) error {
	e, ok := l[got.Name]
	if !ok || e.Version != got.Version || e.Package != got.Package || e.SHA256 == got.SHA256 {
		return nil
	}
	return fmt.Errorf("the image of %s is not the locked one: its sha256 is %s, locked is %s", got, got.SHA256, e.SHA256)
}
