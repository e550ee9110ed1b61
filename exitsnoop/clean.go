package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Clean stops the program and removes all that [EnsureRunning] has pinned or mounted, in version 0
// too. It returns ErrNotRunning if there is nothing to remove. If the directory has anything else
// in it Clean removes nothing and returns ErrForeign.
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
	_, newest, err := p.survey()
	if err != nil {
		return err
	}
	// The links are last: if Clean is interrupted, EnsureRunning can repair the rest.
	var paths, links []string
	if newest > 0 {
		if err := p.refuseForeign(); err != nil {
			return err
		}
		for _, name := range slices.Concat(mapNames, linkNames) {
			paths = append(paths, p.pin(name))
		}
		for _, name := range linkNames {
			links = append(links, p.pin(name))
		}
		paths = append(paths, p.pins)
	}
	for _, name := range oldNames {
		paths = append(paths, p.pathOf(name))
	}
	err = unpin(p.dir, append(links, p.pathOf(oldLink)), func() error { return removeAll(paths) })
	if err != nil {
		return err
	}
	if err := unmountOwn(p.root, p.dir); err != nil {
		return err
	}
	return os.Remove(p.dir)
}

// removeAll removes the paths that exist, in their order.
func removeAll(paths []string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// unmountOwn unmounts dir if it is a mount point.
func unmountOwn(root, dir string) error {
	var a, b unix.Stat_t
	if err := unix.Stat(root, &a); err != nil {
		return fmt.Errorf("stat %s: %w", root, err)
	}
	if err := unix.Stat(dir, &b); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	if a.Dev == b.Dev {
		return nil
	}
	if err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
