//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a row of the mount table. Without a required mount the command does not run. Tests check
// optional mounts themselves.
type mount struct {
	target   string
	fstype   string
	flags    uintptr
	data     string
	required bool
}

// mounts are mounted in this order: a target's parent file system first. /tmp lacks MS_NOSUID
// because tests put set-id programs there.
var mounts = []mount{
	{"/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", true},
	{"/dev", "devtmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0755", true},
	{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666", false},
	{"/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", false},
	{"/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755", false},
	{"/tmp", "tmpfs", unix.MS_NODEV, "mode=1777", true},
	{"/sys/kernel/security", "securityfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false},
	{"/sys/kernel/tracing", "tracefs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false},
	{"/sys/fs/bpf", "bpf", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=0700", false},
}

// cgroup2 is mounted after the others. cgroup1 replaces it in a guest that imitates a host with
// only version 1.
var (
	cgroup2 = []mount{{"/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", false}}
	cgroup1 = append([]mount{{"/sys/fs/cgroup", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=0755", false}},
		hierarchies("pids", "freezer", "cpu,cpuacct", "memory", "none,name=systemd")...)
)

// hierarchies returns mounts of cgroup version 1, each with its controllers or its name.
func hierarchies(all ...string) (table []mount) {
	for _, options := range all {
		dir := "/sys/fs/cgroup/" + strings.TrimPrefix(options, "none,name=")
		table = append(table, mount{dir, "cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, options, false})
	}
	return table
}

// mountAll mounts the table and continues after a failure. missing has all failures, err the first
// failure of a required mount.
func mountAll(table []mount, do func(mount) error) (missing []string, err error) {
	for _, m := range table {
		e := do(m)
		if e == nil {
			continue
		}
		e = fmt.Errorf("mount %s on %s: %w", m.fstype, m.target, e)
		missing = append(missing, e.Error())
		if m.required && err == nil {
			err = e
		}
	}
	return missing, err
}

func (m mount) do() error {
	// Mkdir fails in sysfs: a missing directory there means that the kernel lacks the file
	// system.
	if err := os.Mkdir(m.target, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return unix.Mount(m.fstype, m.target, m.fstype, m.flags, m.data)
}

// hideBTF covers the kernel's BTF, if there is any.
func hideBTF() error {
	const dir = "/sys/kernel/btf"
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "mode=0755"); err != nil {
		return fmt.Errorf("hide %s: %w", dir, err)
	}
	return nil
}
