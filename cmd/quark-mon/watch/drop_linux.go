package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the id of Debian's user nobody and group nogroup, and the kernel's overflow id.
const nobody = 65534

// dropPrivileges changes the user and group to nobody, and the root directory to an empty one,
// which it removes: a removed directory can be a root.
func dropPrivileges() error {
	dir, err := os.MkdirTemp("", "quark-mon-")
	if err != nil {
		return fmt.Errorf("make an empty root directory: %w", err)
	}
	defer os.Remove(dir)
	// The parent is open, so that the directory can be removed after the change of root.
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
	// An exec cannot give privileges back.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// freeProgram gives back the pages of the program itself, of which opening has needed most and what
// follows needs few. Those that are needed again are mapped again.
func freeProgram() {
	self, _ := os.Readlink("/proc/self/exe")
	smaps, _ := os.ReadFile("/proc/self/smaps")
	var start, end uintptr
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 6 && fields[5] == self && (fields[1] == "r-xp" || fields[1] == "r--p"):
			fmt.Sscanf(fields[0], "%x-%x", &start, &end)
		case len(fields) > 1 && fields[0] == "Anonymous:":
			if fields[1] == "0" && end > start { // all of it is as in the file
				unix.RawSyscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
			}
			start, end = 0, 0
		}
	}
}
