package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/wholefile"
)

// Entry is the package and the image of a row. The cache and the lock file store it.
type Entry struct {
	Name      string `json:"name"` // of the row
	Package   string `json:"package"`
	Version   string `json:"version"`
	Release   string `json:"release"`    // uname -r
	Image     string `json:"image"`      // file name in the cache's images
	SHA256    string `json:"sha256"`     // of the image
	DebSHA256 string `json:"deb_sha256"` // of the package

	// InsteadOf is the locked version that this one replaces, as the archive no longer has it.
	InsteadOf string `json:"instead_of,omitempty"`

	// Variant identifies the recipe of an image that was built here.
	Variant string `json:"variant,omitempty"`
}

func (e Entry) String() string { return e.Package + " " + e.Version }

// cache of kernel images:
//
//	rows/NAME.json                 the Entry of a row
//	images/RELEASE_VERSION         an image; RELEASE_VERSION_VARIANT: built here, or its types
//	images/RELEASE_VERSION.sha256  its checksum, as sha256sum -c takes it
//
// Rows may share an image. An image stays when the archive no longer has its package.
type cache struct{ dir string }

func openCache(dir string) (*cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	c := &cache{dir}
	for _, d := range []string{"rows", "images"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("make the cache: %w (XDG_CACHE_HOME names another place)", err)
		}
	}
	c.sweep(time.Now().Add(-time.Hour))
	return c, nil
}

// sweep removes temporary files that were last written before t: those of killed fetchers.
func (c *cache) sweep(t time.Time) {
	stale, _ := filepath.Glob(filepath.Join(c.dir, "*", wholefile.TempPrefix+"*"))
	for _, path := range stale {
		if st, err := os.Stat(path); err == nil && st.ModTime().Before(t) {
			os.Remove(path)
		}
	}
}

func (c *cache) imagePath(e Entry) string { return filepath.Join(c.dir, "images", e.Image) }
func (c *cache) rowPath(name string) string {
	return filepath.Join(c.dir, "rows", name+".json")
}

// errDamaged means that a cached image has changed since it was stored.
var errDamaged = errors.New("cached image is damaged: its sha256 differs")

// load returns a row's entry after verifying its image. os.ErrNotExist: nothing is cached.
func (c *cache) load(name string) (Entry, error) {
	var e Entry
	b, err := os.ReadFile(c.rowPath(name))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("parse %s: %w", c.rowPath(name), err)
	}
	if e.Image == "" || e.Image != filepath.Base(e.Image) || e.Name != name {
		return e, fmt.Errorf("parse %s: it is no entry of %s", c.rowPath(name), name)
	}
	return e, c.verify(e)
}

func (c *cache) verify(e Entry) error {
	f, err := os.Open(c.imagePath(e))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("read the cached image: %w", err)
	}
	if hex.EncodeToString(h.Sum(nil)) != e.SHA256 {
		return errDamaged
	}
	return nil
}

func (e Entry) imageName() string {
	name := e.Release + "_" + strings.ReplaceAll(e.Version, ":", "%3a")
	if e.Variant != "" {
		name += "_" + e.Variant
	}
	return name
}

// adopt stores an entry for an image that is in the cache already, of another row or an earlier
// time, after verifying it by the checksum beside it.
func (c *cache) adopt(e Entry) (Entry, error) {
	e.Image = e.imageName()
	b, err := os.ReadFile(c.imagePath(e) + ".sha256")
	if err != nil {
		return e, err
	}
	e.SHA256, _, _ = strings.Cut(string(b), " ")
	if err := c.verify(e); err != nil {
		return e, err
	}
	return c.enter(e)
}

// store stores the image that write writes, and the row's entry with the image's name and checksum.
func (c *cache) store(e Entry, write func(io.Writer) error) (Entry, error) {
	e.Image = e.imageName()
	h := sha256.New()
	if err := c.replace(c.imagePath(e), func(w io.Writer) error { return write(io.MultiWriter(w, h)) }); err != nil {
		return e, err
	}
	e.SHA256 = hex.EncodeToString(h.Sum(nil))
	return c.enter(e)
}

// enter stores an entry and the checksum of its image.
func (c *cache) enter(e Entry) (Entry, error) {
	err := c.replace(c.imagePath(e)+".sha256", func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s  %s\n", e.SHA256, e.Image)
		return err
	})
	if err != nil {
		return e, err
	}
	return e, c.replace(c.rowPath(e.Name), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "\t")
		return enc.Encode(e)
	})
}

// replace writes a file of the cache. After an error the old one is unchanged.
func (c *cache) replace(path string, write func(io.Writer) error) error {
	err := wholefile.Create(path, write)
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: make room there or name another place with XDG_CACHE_HOME", err)
	}
	if err != nil {
		return fmt.Errorf("write to the cache in %s: %w", c.dir, err)
	}
	return nil
}

// link makes path a symbolic link to an entry's image.
func (c *cache) link(e Entry, path string) error {
	target := c.imagePath(e)
	if old, err := os.Readlink(path); err == nil && old == target {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("link the image: %w", err)
	}
	temp := fmt.Sprintf("%s%s%d", path, wholefile.TempPrefix, os.Getpid())
	if err := os.Symlink(target, temp); err != nil {
		return fmt.Errorf("link the image: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return fmt.Errorf("link the image: %w", err)
	}
	return nil
}
