package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Clean stops the program and removes everything that [EnsureRunning] has pinned or mounted. It
// returns ErrNotRunning if nothing is there, and ErrForeign, without removing anything, if the
// directory has other entries.
func Clean(bpffsRoot string) error {
	if err := newPinDir(bpffsRoot).clean(); err != nil {
		return fmt.Errorf("clean %s: %w", bpffsRoot, err)
	}
	return nil
}

func (p *pinDir) clean() error {
	unlock, err := p.lock(defaultLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	is, err := isDirectory(p.dir)
	switch {
	case err != nil:
		return err
	case !is:
		return ErrNotRunning
	}
	yes, err := onBPFFS(p.dir)
	switch {
	case err != nil:
		return err
	case !yes:
		return ErrNotRunning
	}
	newest, err := p.newestVersion()
	if err != nil {
		return err
	}
	// The links are last: if Clean is interrupted, EnsureRunning can repair the rest.
	var paths []string
	if newest > 0 {
		if err := p.checkForeign(); err != nil {
			return err
		}
		for _, name := range slices.Concat(mapNames, linkNames) {
			paths = append(paths, p.pin(name))
		}
		paths = append(paths, p.pins)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	// EINVAL means that the directory is no mount point: its root is on a BPF file system.
	if err := unix.Unmount(p.dir, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", p.dir, err)
	}
	return os.Remove(p.dir)
}
