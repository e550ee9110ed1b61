package exitsnoop

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The errors of this package, for errors.Is. Those that stand for an error of the kernel or of
// package ebpf also are that error.
var (
	// ErrNotRunning: nothing is pinned below this root.
	ErrNotRunning = errors.New("exitsnoop does not run here: EnsureRunning starts it, and quark-exitsnoop trace or run")
	// ErrFull: no room for another trace. Nothing was lost.
	ErrFull error = &aliasError{"no room for another trace: delete events that were read, or run with larger maps", unix.E2BIG}
	// ErrAlreadyTraced: the pid is being traced, with this or another id.
	ErrAlreadyTraced error = &aliasError{"the process is traced already", ebpf.ErrKeyExist}
	// ErrDuplicateID: the trace id is in use.
	ErrDuplicateID error = &aliasError{"the trace id is in use: delete its event first", ebpf.ErrKeyExist}
	// ErrNotTraced: nothing is known of this pid or trace id.
	ErrNotTraced error = &aliasError{"not traced", ebpf.ErrKeyNotExist}
	// ErrNotEnded: the process of this trace id has not ended.
	ErrNotEnded error = &aliasError{"the process has not ended", ebpf.ErrKeyNotExist}
	// ErrNoProcess: there is no such process, or it ended before it was traced.
	ErrNoProcess error = &aliasError{"there is no such process, or it has ended already", unix.ESRCH}
	// ErrBadPid: not the number of a process.
	ErrBadPid error = &aliasError{"not a pid", unix.EINVAL}
	// ErrNamespace: a pid namespace is not the expected one.
	ErrNamespace = errors.New("another pid namespace")
	// ErrLost: the process has ended, and its status was not recorded.
	ErrLost = errors.New("the process has ended, its status was not recorded")
	// ErrLocked: another call of EnsureRunning, Verify or Clean holds the directory's lock.
	ErrLocked = errors.New("others hold the lock of the directory: try again later")
	// ErrNotDirectory: a file is where a directory should be.
	ErrNotDirectory error = &aliasError{"not a directory", unix.ENOTDIR}
	// ErrNoBPFFS: there is no BPF file system and none can be mounted.
	ErrNoBPFFS = errors.New("no BPF file system: needs CAP_SYS_ADMIN and CONFIG_BPF_SYSCALL, or mount one there")
	// ErrReadOnly: the BPF file system is mounted read-only.
	ErrReadOnly error = &aliasError{"the BPF file system is read-only: remount it rw", unix.EROFS}
	// ErrForeign: a file or pin in the directory was not made by exitsnoop.
	ErrForeign = errors.New("not made by exitsnoop: remove it, or use another root")
	// ErrShape: a pinned map does not have the layout of this version.
	ErrShape = errors.New("a pinned map is not of this version's layout: remove it with quark-exitsnoop clean")
	// ErrNewerVersion: a newer exitsnoop keeps its state below this root.
	ErrNewerVersion = errors.New("a newer version of exitsnoop runs here: use that, or remove its state")
	// ErrUnsupported: the kernel lacks a part of eBPF.
	ErrUnsupported error = &aliasError{"the kernel lacks a part of eBPF (Linux 5.8 has all)", errors.ErrUnsupported}
	// ErrPermission: the caller may not use eBPF.
	ErrPermission error = &aliasError{"not allowed: run as root, or with CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)", unix.EPERM}
)

// aliasError is an error with a text of its own that errors.Is also takes for another error.
type aliasError struct {
	text  string
	alias error
}

func (e *aliasError) Error() string        { return e.text }
func (e *aliasError) Is(target error) bool { return errors.Is(e.alias, target) }

// withPID adds the pid to an error. It returns nil for nil.
func withPID(pid uint32, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pid %d: %w", pid, err)
}

// withTraceID adds the trace id to an error. It returns nil for nil.
func withTraceID(id uint64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("trace id %d: %w", id, err)
}
