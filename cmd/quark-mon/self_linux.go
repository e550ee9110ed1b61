package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the id of Debian's user nobody and group nogroup, and also the kernel's overflow id.
const nobody = 65534

// dropPrivileges changes the user and group to nobody, and the root to an empty, removed directory.
func dropPrivileges() error {
	dir, err := os.MkdirTemp("", "quark-mon-")
	if err != nil {
		return fmt.Errorf("make an empty root directory: %w", err)
	}
	defer os.Remove(dir)
	// The open parent allows the removal after the change of root.
	parent, err := os.Open(os.TempDir())
	if err != nil {
		return fmt.Errorf("open %s: %w", os.TempDir(), err)
	}
	defer parent.Close()
	if err := unix.Chroot(dir); err != nil {
		return fmt.Errorf("change root to %s: %w (-D needs root)", dir, err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("change directory: %w", err)
	}
	if err := unix.Unlinkat(int(parent.Fd()), filepath.Base(dir), unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("become group nogroup: %w", err)
	}
	if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("become user nobody: %w", err)
	}
	// Then no exec can add privileges.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// ownPeakRSS returns quark-mon's peak memory in bytes. A process that it starts begins with it.
func ownPeakRSS() uint64 {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return uint64(r.Maxrss) << 10
}
