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
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Version is that of the layout of what is pinned, and the name of its directory.
const Version = 1

// The directory below the root. Where the root is not on a BPF file system one is
// mounted on it; where it is, names with a dot are not allowed. Version 0, of embedshim's
// pkg/exitsnoop, has its pins in it directly.
const (
	dirName      = ".exitsnoop.bpf"
	dirNameBPFFS = "exitsnoop"
)

// iterators are in the root of each BPF file system of a kernel with CONFIG_BPF_PRELOAD.
var iterators = []string{"maps.debug", "progs.debug"}

// place is where the state is pinned.
type place struct {
	root string
	dir  string // on bpffs
	pins string // in dir, of this version
}

func newPlace(root string) *place {
	dir := filepath.Join(root, dirName)
	if yes, _ := onBPFFS(root); yes {
		dir = filepath.Join(root, dirNameBPFFS)
	}
	return &place{root: root, dir: dir, pins: filepath.Join(dir, "v"+strconv.Itoa(Version))}
}

func (p *place) pin(name string) string { return filepath.Join(p.pins, name) }

// lock keeps others out until the function that it returns is called. The lock
// is on the root directory, as there may be no other yet, and ends with the process.
func (p *place) lock(wait time.Duration) (unlock func(), err error) {
	fd, err := unix.Open(p.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w", p.root, ErrNotDirectory)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open the root directory", Path: p.root, Err: err}
	}
	// flock(2) has no time limit. Many who try often would slow down the one who
	// has it.
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

// onBPFFS reports whether a path is on a BPF file system, and a writable one.
func onBPFFS(path string) (yes bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Type != unix.BPF_FS_MAGIC {
		return false, nil
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		err = fmt.Errorf("%s: %w", path, ErrReadOnly)
	}
	return true, err
}

// directory says whether path is a directory; ErrNotDirectory if it is something else.
func directory(path string) (bool, error) {
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

// openMaps opens the pinned maps that there are and checks their shapes. What
// it has opened is returned with an error too.
func (p *place) openMaps() (maps, error) {
	m := maps{}
	for _, name := range mapNames {
		v, err := openMap(p.pin(name))
		if err != nil {
			return m, err
		}
		if v == nil {
			continue
		}
		m[name] = v
		if err := shaped(name, v); err != nil {
			return m, fmt.Errorf("%s: %w", p.pin(name), err)
		}
	}
	return m, nil
}

// openMap returns nil where nothing is pinned.
func openMap(path string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err = pinError(path, err); err != nil || m == nil {
		return nil, err
	}
	return m, nil
}

// openLinks opens the pinned links that there are, and returns them with an
// error too.
func (p *place) openLinks() (links, error) {
	all := links{}
	for _, name := range linkNames {
		l, err := openLink(p.pin(name))
		if err != nil {
			return all, err
		}
		if l != nil {
			all[name] = l
		}
	}
	return all, nil
}

// openLink returns nil where nothing is pinned.
func openLink(path string) (link.Link, error) {
	l, err := link.LoadPinnedLink(path, nil)
	if err = pinError(path, err); err != nil || l == nil {
		return nil, err
	}
	return l, nil
}

// pinError sorts the errors of opening a pin; none if there is nothing.
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

// survey lists what is in the directory: pins of version 0, and the versions.
func (p *place) survey() (old bool, newest int, err error) {
	list, err := os.ReadDir(p.dir)
	if err != nil {
		return false, 0, err
	}
	for _, e := range list {
		name := e.Name()
		v, isVersion := strings.CutPrefix(name, "v")
		n, err := strconv.Atoi(v)
		switch {
		case isVersion && err == nil && n > 0 && e.IsDir():
			newest = max(newest, n)
		case slices.Contains(oldNames, name):
			old = true
		case slices.Contains(iterators, name):
		case isVersion && err == nil:
			return false, 0, fmt.Errorf("%s: %w", filepath.Join(p.dir, name), ErrNotDirectory)
		default:
			return false, 0, fmt.Errorf("%s: %w", filepath.Join(p.dir, name), ErrForeign)
		}
	}
	if newest > Version {
		return old, newest, fmt.Errorf("%s: %w (it is %d, this one knows up to %d)", p.dir, ErrNewerVersion, newest, Version)
	}
	return old, newest, nil
}

// onlyOurs returns ErrForeign if something else is in the directory of the pins.
func (p *place) onlyOurs() error {
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
