package kernelversion

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Hidden returns why kernel features are hidden from this process: /proc or /sys is not mounted,
// another file system covers /sys/kernel, or a lockdown hides its memory from eBPF, probes and
// tracefs. It returns nil if they are visible.
func Hidden() error { return hidden("/proc", "/sys") }

func hidden(proc, sys string) error {
	for _, fs := range []struct {
		kind, at string
		magic    uint32
	}{{"proc", proc, unix.PROC_SUPER_MAGIC}, {"sysfs", sys, unix.SYSFS_MAGIC}} {
		var st unix.Statfs_t
		if err := unix.Statfs(fs.at, &st); err != nil || uint32(st.Type) != fs.magic {
			return fmt.Errorf("%s is not mounted (mount -t %s %[2]s %[1]s)", fs.at, fs.kind)
		}
	}
	return cmp.Or(covered(sys+"/kernel"), lockdown(sys+"/kernel/security/lockdown"))
}

// covered returns an error if another file system is mounted on a directory of sysfs.
func covered(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || uint32(st.Type) != unix.SYSFS_MAGIC {
		return fmt.Errorf("%s/btf is missing: %[1]s is not sysfs (umount %[1]s)", dir)
	}
	return nil
}

// lockdown returns an error if a file such as "none integrity [confidentiality]" selects
// confidentiality.
func lockdown(file string) error {
	if modes, _ := os.ReadFile(file); strings.Contains(string(modes), "[confidentiality]") {
		return fmt.Errorf("the kernel is locked down (lockdown=confidentiality, %s): it hides its memory from eBPF, probes and tracefs: %w", file, unix.EPERM)
	}
	return nil
}
