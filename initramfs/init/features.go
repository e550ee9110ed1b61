//go:build linux

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// features are the features in the hello record. Their probes are independent of quark's own, so
// that a test can compare the two.
var features = []struct {
	name  string
	probe func() bool
}{
	{"btf", func() bool { return readable("/sys/kernel/btf/vmlinux") }},
	{"tracefs", func() bool { return exists("/sys/kernel/tracing/events") }},
	{"kprobes", func() bool { return exists("/sys/kernel/tracing/kprobe_events") }},
	{"uprobes", func() bool { return exists("/sys/kernel/tracing/uprobe_events") }},
	{"perf_events", func() bool { return exists("/proc/sys/kernel/perf_event_paranoid") }},
	{"bpf", hasBPF},
	{"bpffs", func() bool { return isMount("/sys/fs/bpf", unix.BPF_FS_MAGIC) }},
	{"cgroup2", func() bool { return isMount("/sys/fs/cgroup", unix.CGROUP2_SUPER_MAGIC) }},
	{"cgroup1", func() bool { return isMount("/sys/fs/cgroup/pids", unix.CGROUP_SUPER_MAGIC) }},
	{"connector", hasConnector},
}

func probeFeatures() map[string]bool {
	found := make(map[string]bool, len(features))
	for _, f := range features {
		found[f.name] = f.probe()
	}
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

func isMount(path string, magic int64) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == magic
}

// hasBPF calls bpf with an unknown command: the error shows whether the kernel has the system call.
func hasBPF() bool {
	const unknownCommand = 0x7fffffff
	_, _, errno := unix.Syscall(unix.SYS_BPF, unknownCommand, 0, 0)
	return errno != unix.ENOSYS
}

// hasConnector binds a netlink socket as the proc connector's listeners do.
func hasConnector() bool {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	const cnIdxProc = 1 // linux/connector.h
	return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}) == nil
}
