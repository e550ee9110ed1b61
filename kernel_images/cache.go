package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/usercache"
)

// cache keeps kernel images in the directory images, under these names:
//
//	RELEASE_VERSION  the image of a package
//
// A symbolic link has the name of an image that the archive lacked, and points to a replacement. An
// image stays when the archive no longer has its package.
type cache struct{ *usercache.Files }

func openCache(dir string) (*cache, error) {
	files, err := usercache.OpenFiles(filepath.Join(dir, "images"))
	return &cache{files}, err
}

// imageName returns the name of the image of a release from a version of a package.
func imageName(release, version string) string {
	return release + "_" + strings.ReplaceAll(version, ":", "%3a")
}

// replace makes the image named name the replacement of an image that the archive lacks.
func (c *cache) replace(gone, name string) error { return link(name, c.Path(gone)) }

// replacement returns the image that replaces the named one, or its own name.
func (c *cache) replacement(name string) string {
	if other, err := os.Readlink(c.Path(name)); err == nil {
		return filepath.Base(other)
	}
	return name
}

// link makes path a symbolic link to target.
func link(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	temp := fmt.Sprintf("%s%s%d", path, atomicfile.TempPrefix, os.Getpid())
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.Symlink(target, temp)
	}
	if err == nil {
		if err = os.Rename(temp, path); err != nil {
			os.Remove(temp)
		}
	}
	if err != nil {
		return fmt.Errorf("link the image: %w", err)
	}
	return nil
}
