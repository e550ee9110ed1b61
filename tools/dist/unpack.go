package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unpackImage puts the files of an archive's image for an architecture into a directory. Digests
// are checked when they are read.
func unpackImage(archive, arch, dir string) error {
	store, err := os.MkdirTemp("", "quark-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(store)
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := untar(f, store); err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	outer, err := layout.ImageIndexFromPath(store)
	if err != nil {
		return err
	}
	inner, err := partial.FindIndexes(outer, func(v1.Descriptor) bool { return true })
	if err != nil {
		return err
	}
	for _, index := range inner {
		images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil {
			return err
		}
		if len(images) == 1 {
			content := mutate.Extract(images[0])
			return errors.Join(untar(content, dir), content.Close())
		}
	}
	return fmt.Errorf("%s has no image for %s", archive, arch)
}

// untar unpacks files and directories, which are all below dir.
func untar(r io.Reader, dir string) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s is not below the archive's root", h.Name)
		}
		path := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, h.FileInfo().Mode().Perm())
		case tar.TypeReg:
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), create(path, func(w io.Writer) error {
				_, err := io.Copy(w, tr)
				return err
			}), os.Chmod(path, h.FileInfo().Mode().Perm()))
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", h.Name)
		}
		if err != nil {
			return err
		}
	}
}
