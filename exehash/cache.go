package exehash

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/quark-linux/quark"
)

// Sum is the SHA-256 of an executable.
type Sum struct {
	SHA256 [sha256.Size]byte
	// Cached is set if the process may have executed other contents: an EXEC may have been
	// lost, or the ctime of the file has changed or does not prove that the file is unchanged
	// since the EXEC.
	Cached bool
}

// Reasons why a sum is unknown.
var (
	ErrUnknown = errors.New("the executable of the process is unknown")
	// ErrGone reports that the process no longer executes the file, and that the file is no
	// longer at its path.
	ErrGone = errors.New("the process no longer executes the file")
	// ErrChanged reports that the file changed since the EXEC, or during the read.
	ErrChanged = errors.New("the file has changed")
	// ErrTooLarge reports a file larger than MaxSize.
	ErrTooLarge = errors.New("the file is too large")
	// ErrFileSystem reports a file system that a server or another process implements, such as
	// NFS and FUSE: a read may block forever.
	ErrFileSystem = errors.New("files of this file system are not read")
)

// Cache computes sums and keeps them for later processes that execute the same file. The zero value
// is ready for use by several goroutines.
type Cache struct {
	// MaxSize limits the size of files in bytes. Zero means 128 MiB, which takes about 0.3 s.
	MaxSize int64

	mu   sync.Mutex
	sums map[file]sum
}

// file identifies one state of a file.
type file struct {
	device uint32
	inode  uint64
	ctime  int64 // ns since 1970
}

type sum struct {
	SHA256 [sha256.Size]byte
	exact  bool // every change of the contents sets another ctime
}

// maxSums limits the sums in a Cache. Each needs about 100 bytes.
const maxSums = 4096

func (c *Cache) lookup(f file) (sum, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.sums[f]
	return s, ok
}

func (c *Cache) store(f file, s sum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil {
		c.sums = make(map[file]sum)
	}
	if _, ok := c.sums[f]; !ok && len(c.sums) >= maxSums {
		for any := range c.sums {
			delete(c.sums, any)
			break
		}
	}
	c.sums[f] = s
}

// imageCertain reports whether p.ExeFile is from the last EXEC of p. The field itself is cached
// after the EXEC, because a file can change without an event; the arguments are cached only if an
// EXEC may have been lost.
func imageCertain(p *quark.Process) bool {
	reported := p.Known &^ p.Cached
	return reported.Has(quark.FieldExeFile) || reported.Has(quark.FieldArgs)
}

// changesCtime reports whether a change at the given time, or later, gives the file another ctime.
// The kernel's clock for ctimes ticks every 1 to 10 ms. Whole seconds come from file systems that
// store no fraction, and from images with one ctime for all files; such a ctime does not show which
// change was first.
func changesCtime(ctime, at int64) bool { return ctime%1e9 != 0 && at-ctime > 20e6 }
