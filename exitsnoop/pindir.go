package exitsnoop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Version is the version of the pinned maps' layout. Their directory is named v and the version.
const Version = 1

// The directory below the root is dirName, a mount point for a BPF file system. If the root itself
// is on a BPF file system, the directory is dirNameBPFFS: names there cannot contain a dot.
const (
	dirName      = ".exitsnoop.bpf"
	dirNameBPFFS = "exitsnoop"
)

// iterators are the files that CONFIG_BPF_PRELOAD puts into the root of each BPF file system.
var iterators = []string{"maps.debug", "progs.debug"}

// pinDir is the directory of the pinned state.
type pinDir struct {
	root string
	dir  string // on a BPF file system
	pins string // the directory of this version in dir
}

func newPinDir(root string) *pinDir {
	dir := filepath.Join(root, dirName)
	if yes, _ := onBPFFS(root); yes {
		dir = filepath.Join(root, dirNameBPFFS)
	}
	return &pinDir{root: root, dir: dir, pins: filepath.Join(dir, "v"+strconv.Itoa(Version))}
}

func (p *pinDir) pin(name string) string { return filepath.Join(p.pins, name) }

// lock waits for the lock, which unlock releases. It is a flock of the root directory, because the
// other directories may not exist yet; the kernel releases it when the process ends.
func (p *pinDir) lock(wait time.Duration) (unlock func(), err error) {
	fd, err := unix.Open(p.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", p.root, ErrNotDirectory)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open the root directory", Path: p.root, Err: err}
	}
	// flock(2) has no timeout. The pause grows, so that many waiting processes do not slow down
	// the lock's holder.
	pause := time.Millisecond
	for end := time.Now().Add(wait); ; time.Sleep(pause) {
		pause = min(2*pause, 100*time.Millisecond)
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { unix.Close(fd) }, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().After(end):
			unix.Close(fd)
			return nil, fmt.Errorf("lock %s: %w", p.root, ErrLocked)
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			unix.Close(fd)
			return nil, &fs.PathError{Op: "lock", Path: p.root, Err: err}
		}
	}
}

// onBPFFS reports whether a path is on a BPF file system. The error is ErrReadOnly if it is
// read-only.
func onBPFFS(path string) (yes bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if uint32(st.Type) != unix.BPF_FS_MAGIC {
		return false, nil
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		err = fmt.Errorf("%s: %w", path, ErrReadOnly)
	}
	return true, err
}

// isDirectory reports whether path is a directory. The error is ErrNotDirectory for another file.
func isDirectory(path string) (bool, error) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, unix.ENOTDIR):
		return false, fmt.Errorf("%s: %w", filepath.Dir(path), ErrNotDirectory)
	case err != nil:
		return false, err
	case !st.IsDir():
		return false, fmt.Errorf("%s: %w", path, ErrNotDirectory)
	}
	return true, nil
}

// openMaps opens the pinned maps and checks their layout. After an error it returns the maps that
// it has opened.
func (p *pinDir) openMaps() (maps, error) {
	all, err := openPins(p, mapNames, ebpf.LoadPinnedMap)
	for name, m := range all {
		if e := checkLayout(name, m); err == nil && e != nil {
			err = fmt.Errorf("%s: %w", p.pin(name), e)
		}
	}
	return all, err
}

// openPins opens the existing pins. After an error it returns the pins that it has opened.
func openPins[T comparable](p *pinDir, names []string, load func(string, *ebpf.LoadPinOptions) (T, error)) (map[string]T, error) {
	all := map[string]T{}
	for _, name := range names {
		path := p.pin(name)
		v, err := load(path, nil)
		if err == nil {
			all[name] = v
		} else if err = pinError(path, err); err != nil {
			return all, err
		}
	}
	return all, nil
}

// pinError maps an error of opening a pin to an error of this package. A missing pin is not an
// error.
func pinError(path string, err error) error {
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s: %w", path, ErrNotDirectory)
	case errors.Is(err, unix.EPERM) && os.Geteuid() != 0:
		return fmt.Errorf("%s: %w: %w", path, ErrPermission, err)
	case errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		return fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Errorf("%s: %w: %w", path, ErrForeign, err)
}

// newestVersion returns the newest version in the directory, 0 for none.
func (p *pinDir) newestVersion() (newest int, err error) {
	list, err := os.ReadDir(p.dir)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		name := e.Name()
		v, isVersion := strings.CutPrefix(name, "v")
		n, err := strconv.Atoi(v)
		switch {
		case isVersion && err == nil && n > 0 && e.IsDir():
			newest = max(newest, n)
		case slices.Contains(iterators, name):
		case isVersion && err == nil:
			return 0, fmt.Errorf("%s: %w", filepath.Join(p.dir, name), ErrNotDirectory)
		default:
			return 0, fmt.Errorf("%s: %w", filepath.Join(p.dir, name), ErrForeign)
		}
	}
	if newest > Version {
		return newest, fmt.Errorf("%s: %w (version %d, this program supports up to %d)", p.dir, ErrNewerVersion, newest, Version)
	}
	return newest, nil
}

// checkForeign returns ErrForeign if the directory of the pins has other entries.
func (p *pinDir) checkForeign() error {
	list, err := os.ReadDir(p.pins)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !slices.Contains(linkNames, e.Name()) && !slices.Contains(mapNames, e.Name()) {
			return fmt.Errorf("%s: %w", p.pin(e.Name()), ErrForeign)
		}
	}
	return nil
}
