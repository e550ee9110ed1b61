package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// tarball writes an archive of what is below usr/local in the tree, in a directory that has the
// name and the version: unpacked into /usr/local without that directory it is installed.
func (r release) tarball(t tree, w io.Writer) error {
	t = t.below("usr/local")
	if len(t) == 0 {
		return errors.New("the tree has no usr/local: install it with PREFIX=/usr/local")
	}
	// The header has no name and no time.
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(zw)
	dir := t.product() + "-" + strings.TrimPrefix(r.version, "v") + "-linux-" + r.arch
	return errors.Join(t.writeTar(tw, dir, r.time), tw.Close(), zw.Close())
}

// sums writes the SHA-256 of files, as sha256sum(1) does.
func sums(files []string, w io.Writer) error {
	for _, path := range files {
		h := sha256.New()
		if err := copyFile(h, path); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%x  %s\n", h.Sum(nil), filepath.Base(path)); err != nil {
			return err
		}
	}
	return nil
}
