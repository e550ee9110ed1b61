package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// tracingFile reads a file of tracefs, from a private mount.
func tracingFile(name string) ([]byte, error) {
	ctx, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, err
	}
	mount, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(mount)
	return os.ReadFile(filepath.Join("/proc/self/fd", strconv.Itoa(mount), name))
}

// keepTracepoints makes this process a user of the tracepoints of system calls that the
// eBPF backend needs where there are no kprobes. The kernel waits some 60 ms for each that
// loses its last user, which would take a third of the time of all tests. A tracepoint
// that can't be kept only costs time.
func keepTracepoints() (release func()) {
	var kept []int
	release = func() {
		for _, fd := range kept {
			unix.Close(fd)
		}
	}
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe/type"); err == nil {
		return release
	}
	for _, name := range []string{"setuid", "setreuid", "setresuid", "setgid", "setregid", "setresgid", "setsid"} {
		b, err := tracingFile("events/syscalls/sys_exit_" + name + "/id")
		if err != nil {
			continue
		}
		id, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
		if err != nil {
			continue
		}
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: id}
		if fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC); err == nil {
			kept = append(kept, fd)
		}
	}
	return release
}
