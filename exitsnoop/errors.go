package exitsnoop

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Errors of this package, for errors.Is. Those that replace an error of the kernel or of package
// ebpf also match that error.
var (
	// ErrNotRunning: there are no pins below this root.
	ErrNotRunning = errors.New("exitsnoop is not running here: call EnsureRunning, or run quark-exitsnoop trace")
	// ErrFull: no room for another trace. No exit was lost.
	ErrFull error = &aliasError{"no room for another trace: delete events that you have read, or use larger maps", unix.E2BIG}
	// ErrAlreadyTraced: the pid is being traced, with this or another id.
	ErrAlreadyTraced error = &aliasError{"the process is already traced", ebpf.ErrKeyExist}
	// ErrDuplicateID: the trace id is in use.
	ErrDuplicateID error = &aliasError{"the trace id is in use: delete its event first", ebpf.ErrKeyExist}
	// ErrNotTraced: this pid or trace id is unknown.
	ErrNotTraced error = &aliasError{"not traced", ebpf.ErrKeyNotExist}
	// ErrNotEnded: the process of this trace id has not ended.
	ErrNotEnded error = &aliasError{"the process has not ended", ebpf.ErrKeyNotExist}
	// ErrNoProcess: there is no such process, or it ended before it was traced.
	ErrNoProcess error = &aliasError{"there is no such process, or it has ended already", unix.ESRCH}
	// ErrBadPid: not the number of a process.
	ErrBadPid error = &aliasError{"not a pid", unix.EINVAL}
	// ErrNamespace: the process is not in the given pid namespace, or the caller is in a pid or
	// time namespace of its own.
	ErrNamespace = errors.New("another namespace")
	// ErrLost: the process has ended, and its status was not recorded.
	ErrLost = errors.New("the process has ended without a recorded status")
	// ErrLocked: another call of EnsureRunning, Verify or Clean holds the directory's lock.
	ErrLocked = errors.New("another process holds the directory's lock: try again later")
	// ErrNotDirectory: a file is where a directory should be.
	ErrNotDirectory error = &aliasError{"not a directory", unix.ENOTDIR}
	// ErrNoBPFFS: there is no BPF file system and none can be mounted.
	ErrNoBPFFS = errors.New("no BPF file system: needs CAP_SYS_ADMIN and CONFIG_BPF_SYSCALL, or mount one there")
	// ErrReadOnly: the BPF file system is mounted read-only.
	ErrReadOnly error = &aliasError{"the BPF file system is read-only: remount it rw", unix.EROFS}
	// ErrForeign: a file or pin in the directory was not made by exitsnoop.
	ErrForeign = errors.New("not made by exitsnoop: remove it, or use another root")
	// ErrShape: a pinned map does not have the layout of this version.
	ErrShape = errors.New("a pinned map has another layout: remove it with quark-exitsnoop clean")
	// ErrNewerVersion: a newer exitsnoop has its state below this root.
	ErrNewerVersion = errors.New("a newer version of exitsnoop is running here: use it, or remove its state")
	// ErrUnsupported: the kernel lacks a part of eBPF.
	ErrUnsupported error = &aliasError{"the kernel lacks a part of eBPF (Linux 5.8 has all)", errors.ErrUnsupported}
	// ErrPermission: the caller may not use eBPF.
	ErrPermission error = &aliasError{"permission denied: run as root, or with CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)", unix.EPERM}
)

// aliasError is an error with its own text that errors.Is also matches with another error.
type aliasError struct {
	text  string
	alias error
}

func (e *aliasError) Error() string        { return e.text }
func (e *aliasError) Is(target error) bool { return errors.Is(e.alias, target) }

// withPID adds the pid to a non-nil error.
func withPID(pid uint32, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pid %d: %w", pid, err)
}

// withTraceID adds the trace id to a non-nil error.
func withTraceID(id uint64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("trace id %d: %w", id, err)
}
