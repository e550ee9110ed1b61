package gotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"
)

// Command is the name of the program in the image that runs the binaries of the archive.
const Command = "gotest"

// root is the guest's copy of the module's directory; list is the file with the Run.
const (
	root = "quark"
	list = root + "/tests.json"
)

// Binary is a test binary.
type Binary struct {
	Path string // on the host
	Dir  string // directory of its package on the host, with its testdata
	// directory of the package relative to the module's root, "." for the root itself
	Package string
	Backend string // in the records of its tests
}

// Run describes what the guest runs: with Exec the only binary, for go test -exec, else all tests
// of all binaries.
type Run struct {
	Binaries []Binary
	Exec     bool     // report the output and the exit status instead of tests
	Merge    bool     // standard output and error are the same file
	Args     []string // with Exec
	Env      []string // NAME=VALUE, added to the guest's own
}

// Archive writes an uncompressed newc archive, because an emulated processor copies faster than it
// decompresses. The same binaries give the same bytes.
func Archive(w io.Writer, run Run) error {
	records := []cpio.Record{cpio.Directory(root, 0o755)}
	made := map[string]bool{root: true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if made[dir] {
			return
		}
		mkdir(path.Dir(dir))
		made[dir] = true
		records = append(records, cpio.Directory(dir, 0o755))
	}
	run.Binaries = slices.Clone(run.Binaries)
	for i, b := range run.Binaries {
		if !filepath.IsLocal(b.Package) {
			return fmt.Errorf("test binary %s: package %q is outside of the module", b.Path, b.Package)
		}
		dir := b.guestDir()
		mkdir(dir)
		content, err := os.ReadFile(b.Path)
		if err != nil {
			return fmt.Errorf("add a test binary: %w", err)
		}
		records = append(records, cpio.StaticFile(b.guestPath(), string(content), 0o755))
		err = filepath.WalkDir(filepath.Join(b.Dir, "testdata"), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(b.Dir, name)
			if err != nil {
				return err
			}
			to := path.Join(dir, filepath.ToSlash(rel))
			switch {
			case d.IsDir():
				mkdir(to)
			case d.Type().IsRegular():
				content, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				records = append(records, cpio.StaticFile(to, string(content), 0o644))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("add the testdata of %s: %w", b.Package, err)
		}
		// Only the host uses the paths, which differ from machine to machine.
		run.Binaries[i].Path, run.Binaries[i].Dir = "", ""
	}
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	records = append(records, cpio.StaticFile(list, string(text), 0o644))
	cpio.MakeAllReproducible(records)
	rw := cpio.Newc.Writer(w)
	if err := cpio.WriteRecords(rw, records); err != nil {
		return err
	}
	return cpio.WriteTrailer(rw)
}

// Append writes an image and then the archive. The kernel skips zeros between archives, and accepts
// an uncompressed archive only at a multiple of 4.
func Append(w io.Writer, image io.Reader, run Run) error {
	n, err := io.Copy(w, image)
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte{0}, int(-n&3)))
	}
	if err != nil {
		return err
	}
	return Archive(w, run)
}

func (b Binary) guestDir() string { return path.Join(root, filepath.ToSlash(b.Package)) }

func (b Binary) guestPath() string { return path.Join(b.guestDir(), b.Name()+".test") }

// Name returns the first part of the names of the binary's tests: the last element of the package's
// path, or of the module's path for the root package.
func (b Binary) Name() string {
	if b.Package == "." {
		return root
	}
	return path.Base(filepath.ToSlash(b.Package))
}
