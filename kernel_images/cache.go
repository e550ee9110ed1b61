package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/wholefile"
)

// cache keeps kernel images under images/, by names:
//
//	RELEASE_VERSION          the image of a package
//	RELEASE_VERSION_VARIANT  an image that was built here; with .btf, its types
//	NAME.sha256              the checksum of an image, as sha256sum -c takes it
//
// A symbolic link has the name of an image that the archive did not have, and points to the image
// that replaces it. An image stays when the archive no longer has its package.
type cache struct{ dir string }

func openCache(dir string) (*cache, error) {
	dir, err := filepath.Abs(filepath.Join(dir, "images"))
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w (XDG_CACHE_HOME names another place)", err)
	}
	c := &cache{dir}
	c.sweep(time.Now().Add(-time.Hour))
	return c, nil
}

// sweep removes temporary files that were last written before t: those of killed fetchers.
func (c *cache) sweep(t time.Time) {
	stale, _ := filepath.Glob(filepath.Join(c.dir, wholefile.TempPrefix+"*"))
	for _, path := range stale {
		if st, err := os.Stat(path); err == nil && st.ModTime().Before(t) {
			os.Remove(path)
		}
	}
}

func (c *cache) path(name string) string { return filepath.Join(c.dir, name) }

// imageName returns the name of the image of a release from a version of a package.
func imageName(release, version string) string {
	return release + "_" + strings.ReplaceAll(version, ":", "%3a")
}

// errDamaged means that a cached image has changed since it was stored.
var errDamaged = errors.New("cached image is damaged: its sha256 differs")

// verify returns the checksum of an image, which must be the one that was stored with it.
// os.ErrNotExist: the image is not cached.
func (c *cache) verify(name string) (sum string, err error) {
	b, err := os.ReadFile(c.path(name) + ".sha256")
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(c.path(name))
	if err != nil {
		return "", err
	}
	sum = checksum(content)
	if stored, _, _ := strings.Cut(string(b), " "); stored != sum {
		return "", errDamaged
	}
	return sum, nil
}

func checksum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// store stores an image, and returns its checksum.
func (c *cache) store(name string, image []byte) (sum string, err error) {
	sum = checksum(image)
	if err = wholefile.Write(c.path(name), image); err == nil {
		err = wholefile.Write(c.path(name)+".sha256", fmt.Appendf(nil, "%s  %s\n", sum, name))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: make room there or name another place with XDG_CACHE_HOME", err)
	}
	if err != nil {
		return "", fmt.Errorf("write to the cache in %s: %w", c.dir, err)
	}
	return sum, nil
}

// replace makes one image stand for another that the archive does not have.
func (c *cache) replace(gone, name string) error { return link(name, c.path(gone)) }

// replacement returns the image that stands for the named one, itself if none does.
func (c *cache) replacement(name string) string {
	if other, err := os.Readlink(c.path(name)); err == nil {
		return filepath.Base(other)
	}
	return name
}

// link makes path a symbolic link to target.
func link(target, path string) error {
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	temp := fmt.Sprintf("%s%s%d", path, wholefile.TempPrefix, os.Getpid())
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
