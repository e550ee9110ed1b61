package usercache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/atomicfile"
)

// Files keeps files with their checksums in a directory: NAME.sha256 has the checksum of NAME, in
// the format of sha256sum -c.
type Files struct{ dir string }

// OpenFiles creates the directory, and removes temporary files of killed writers.
func OpenFiles(dir string) (*Files, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w (set XDG_CACHE_HOME to use another directory)", err)
	}
	c := &Files{dir}
	c.removeTemporary(time.Now().Add(-time.Hour))
	return c, nil
}

// removeTemporary removes temporary files of killed writers, which were last written before t.
func (c *Files) removeTemporary(t time.Time) {
	stale, _ := filepath.Glob(filepath.Join(c.dir, atomicfile.TempPrefix+"*"))
	for _, path := range stale {
		if st, err := os.Stat(path); err == nil && st.ModTime().Before(t) {
			os.Remove(path)
		}
	}
}

// Path returns the path of a file.
func (c *Files) Path(name string) string { return filepath.Join(c.dir, name) }

// ErrDamaged means that a cached file has changed since it was stored.
var ErrDamaged = errors.New("cached file is damaged: its sha256 differs")

// Verify returns the checksum of a file. The error is ErrDamaged if it differs from the stored
// checksum, os.ErrNotExist if the file is not cached.
func (c *Files) Verify(name string) (sum string, err error) {
	b, err := os.ReadFile(c.Path(name) + ".sha256")
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(c.Path(name))
	if err != nil {
		return "", err
	}
	sum = Checksum(content)
	if stored, _, _ := strings.Cut(string(b), " "); stored != sum {
		return "", ErrDamaged
	}
	return sum, nil
}

// Checksum returns the SHA-256 of content in hex.
func Checksum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

// Store stores a file, and returns its checksum.
func (c *Files) Store(name string, content []byte) (sum string, err error) {
	sum = Checksum(content)
	if err = atomicfile.Write(c.Path(name), content); err == nil {
		err = atomicfile.Write(c.Path(name)+".sha256", fmt.Appendf(nil, "%s  %s\n", sum, name))
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: free space there, or set XDG_CACHE_HOME to use another directory", err)
	}
	if err != nil {
		return "", fmt.Errorf("write to the cache in %s: %w", c.dir, err)
	}
	return sum, nil
}
