package matrix

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/atomicfile"
	"github.com/quark-linux/quark/internal/harness/record"
)

// Cache keeps the outcomes of guests that passed, by a digest of all that they depend on.
type Cache struct {
	dir string

	// Harness holds, for each architecture, a digest of the programs that run its guests: this
	// program and qemu.
	Harness map[string]string
}

// maxAge is how long an outcome is kept after its last use.
const maxAge = 30 * 24 * time.Hour

// OpenCache opens the cache in dir and removes old outcomes from it.
func OpenCache(dir string, harness map[string]string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache of results: %w (set XDG_CACHE_HOME to use another directory)", err)
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

// Key returns the digest of all that a guest's outcome depends on. image is the digest of its
// initramfs.
func (c *Cache) Key(m Machine, g Guest, image string) string {
	m = m.withDefaults()
	b, err := json.Marshal(struct {
		Harness, Kernel, Image string
		Mem                    int
		Arguments, Command     []string
		Claims, Lacks          []string
		CPUs                   int
	}{c.Harness[g.Kernel.Arch], g.Kernel.SHA256, image, m.Mem, g.arguments(), g.command(), g.claims(), g.Kernel.Lacks, g.Kernel.CPUs})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return Digest(string(b))[:32]
}

const outcomeFile = "outcome.json"

// Load returns the outcome for a key and copies the guest's files to dir. ok is false when there is
// none.
func (c *Cache) Load(key string, g Guest, dir string) (o Outcome, ok bool, err error) {
	from := filepath.Join(c.dir, key)
	b, err := os.ReadFile(filepath.Join(from, outcomeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err == nil {
		err = copyLogs(dir, from)
	}
	if err != nil {
		return o, false, fmt.Errorf("read a cached result: %w (FRESH=1 ignores cached results)", err)
	}
	now := time.Now()
	os.Chtimes(from, now, now) // time of the last use
	o.Cached, o.Guest, o.Kernel = true, g.Name(), g.Kernel
	return o, true, nil
}

// Store keeps the outcome of a guest that passed, with its files in dir.
func (c *Cache) Store(key string, o Outcome, dir string) error {
	if o.State != record.Pass {
		return nil
	}
	to := filepath.Join(c.dir, key)
	b, err := json.Marshal(o)
	if err == nil {
		err = copyLogs(to, dir)
	}
	if err == nil { // written last: Load requires this file
		err = atomicfile.Write(filepath.Join(to, outcomeFile), b)
	}
	if err != nil {
		return fmt.Errorf("cache a result: %w", err)
	}
	return nil
}

// copyLogs copies a guest's console and records to a directory, and replaces existing ones.
func copyLogs(to, from string) error {
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)))
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
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Digest returns one SHA-256 of several texts, in hex.
func Digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}
