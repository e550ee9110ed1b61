package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Cache remembers the outcomes of guests in which all was good, by all that they depend on, and how
// long each guest took. One that was not good is always run again.
type Cache struct {
	dir string

	// Harness has, for each architecture, a digest of what runs its guests: this program and
	// qemu.
	Harness map[string]string
}

// maxAge is how long an outcome that nobody asks for is kept.
const maxAge = 30 * 24 * time.Hour

// OpenCache opens the cache in dir and removes from it what is old.
func OpenCache(dir string, harness map[string]string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache of results: %w (XDG_CACHE_HOME names another place)", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the cache of results: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && time.Since(info.ModTime()) > maxAge {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return &Cache{dir: dir, Harness: harness}, nil
}

// Key is the digest of all that a guest's outcome depends on. image is the digest of its initramfs.
func (c *Cache) Key(m Machine, g Guest, image string) string {
	m = m.withDefaults()
	b, err := json.Marshal(struct {
		Harness, Kernel, Image string
		SMP, Mem               int
		Arguments, Command     []string
		Claims                 []string
	}{c.Harness[g.Kernel.Arch], g.Kernel.SHA256, image, m.SMP, m.Mem, g.arguments(), g.command(), g.claims()})
	if err != nil {
		panic(err) // strings and numbers only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

const outcomeFile = "outcome.json"

// Load gives a guest's outcome with its files put into dir. ok is false when there is none.
func (c *Cache) Load(key string, g Guest, dir string) (o Outcome, ok bool, err error) {
	from := filepath.Join(c.dir, key)
	b, err := os.ReadFile(filepath.Join(from, outcomeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return o, false, fmt.Errorf("read a cached result: %w (FRESH=1 does without)", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, false, err
	}
	for _, name := range []string{ConsoleFile, recordsFile} {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(from, name)); err != nil {
			return o, false, fmt.Errorf("read a cached result: %w (FRESH=1 does without)", err)
		}
	}
	now := time.Now()
	os.Chtimes(from, now, now) // it is wanted still
	o.Cached, o.Guest, o.Kernel = true, g.Name(), g.Kernel
	return o, true, nil
}

// Store keeps an outcome, if all in it is good, with the files in dir.
func (c *Cache) Store(key string, o Outcome, dir string) error {
	if o.State != record.Pass {
		return nil
	}
	temp, err := os.MkdirTemp(c.dir, ".tmp-")
	if err != nil {
		return fmt.Errorf("cache a result: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil {
		return fmt.Errorf("cache a result: %w", err)
	}
	for _, name := range []string{ConsoleFile, recordsFile} {
		if err := copyFile(filepath.Join(temp, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("cache a result: %w", err)
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("cache a result: %w", err)
	}
	if err := os.WriteFile(filepath.Join(temp, outcomeFile), b, 0o644); err != nil {
		return fmt.Errorf("cache a result: %w", err)
	}
	to := filepath.Join(c.dir, key)
	os.RemoveAll(to)
	if err := os.Rename(temp, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cache a result: %w", err)
	}
	return nil
}

const durationsFile = "durations.json"

// Durations are the milliseconds that guests took when they last ran, by name. A damaged file is as
// good as none.
func (c *Cache) Durations() map[string]int64 {
	d := make(map[string]int64)
	if b, err := os.ReadFile(filepath.Join(c.dir, durationsFile)); err == nil && json.Unmarshal(b, &d) != nil {
		return make(map[string]int64)
	}
	return d
}

// Remember keeps how long guests took that ran now.
func (c *Cache) Remember(outcomes []Outcome) error {
	d := c.Durations()
	for _, o := range outcomes {
		if !o.Cached && o.State.Good() {
			d[o.Guest] = o.TotalMS
		}
	}
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(c.dir, durationsFile), b)
}

// replaceFile writes a file whole or leaves the old one.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// FileDigest returns the SHA-256 of a file, in hex.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Digest is one digest of many parts.
func Digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}
