package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Clean ends the program and removes everything that was pinned or mounted by
// [EnsureRunning], also by version 0. It returns ErrNotRunning if there was nothing and
// ErrForeign, with nothing removed, if there is something else as well.
func Clean(bpffsRoot string) error {
	if err := newPlace(bpffsRoot).clean(); err != nil {
		return fmt.Errorf("clean %s: %w", bpffsRoot, err)
	}
	return nil
}

func (p *place) clean() error {
	unlock, err := p.lock(defaultLockWait)
	if err != nil {
		return err
	}
	defer unlock()
	is, err := directory(p.dir)
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
	// The links last, so that an end half way is one that can be repaired.
	var paths, links []string
	if newest > 0 {
		if err := p.onlyOurs(); err != nil {
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

// removeAll removes those of the paths that are there, in their order.
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
