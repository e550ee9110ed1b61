package exitsnoop

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// The errors that callers can tell apart with errors.Is. Where one stands for
// an error of the kernel or of package ebpf, it is that too.
var (
	// ErrNotRunning: nothing is pinned below this root.
	ErrNotRunning = errors.New("exitsnoop does not run here: call EnsureRunning first")
	// ErrFull: no room for another trace. Nothing was lost.
	ErrFull error = &kind{"no room for another trace: delete events that were read, or run with larger maps", unix.E2BIG}
	// ErrAlreadyTraced: the pid is being traced, with this or another id.
	ErrAlreadyTraced error = &kind{"the process is traced already", ebpf.ErrKeyExist}
	// ErrDuplicateID: the trace id is in use.
	ErrDuplicateID error = &kind{"the trace id is in use: delete its event first", ebpf.ErrKeyExist}
	// ErrNotTraced: nothing is known of this pid or trace id.
	ErrNotTraced error = &kind{"not traced", ebpf.ErrKeyNotExist}
	// ErrNotEnded: the process of this trace id has not ended.
	ErrNotEnded error = &kind{"the process has not ended", ebpf.ErrKeyNotExist}
	// ErrNoProcess: there is no such process, or its end came before it was traced.
	ErrNoProcess error = &kind{"there is no such process, or it has ended already", unix.ESRCH}
	// ErrBadPid: not the number of a process.
	ErrBadPid error = &kind{"not a pid", unix.EINVAL}
	// ErrNamespace: a pid namespace is not the expected one.
	ErrNamespace = errors.New("another pid namespace")
	// ErrLost: the process has ended and it is not known how.
	ErrLost = errors.New("the process has ended, its status was not recorded")
	// ErrLocked: others are at work on the directory.
	ErrLocked = errors.New("others hold the lock of the directory: try again later")
	// ErrNotDirectory: something else is where a directory should be.
	ErrNotDirectory error = &kind{"not a directory", unix.ENOTDIR}
	// ErrNoBPFFS: there is no BPF file system and none can be mounted.
	ErrNoBPFFS = errors.New("no BPF file system: needs CAP_SYS_ADMIN and CONFIG_BPF_SYSCALL, or mount one there")
	// ErrReadOnly: the BPF file system is mounted read-only.
	ErrReadOnly error = &kind{"the BPF file system is read-only: remount it rw", unix.EROFS}
	// ErrForeign: something that exitsnoop has not made is in its place.
	ErrForeign = errors.New("not made by exitsnoop: remove it, or use another root")
	// ErrShape: a map is not of the layout of this version.
	ErrShape = errors.New("a pinned map is not of this version's layout: remove it with quark-exitsnoop clean")
	// ErrNewerVersion: a newer exitsnoop keeps its state below this root.
	ErrNewerVersion = errors.New("a newer version of exitsnoop runs here: use that, or remove its state")
	// ErrUnsupported: the kernel lacks a part of eBPF.
	ErrUnsupported error = &kind{"the kernel lacks a part of eBPF (needs Linux 5.8)", errors.ErrUnsupported}
	// ErrPermission: the caller may not use eBPF.
	ErrPermission error = &kind{"not allowed: run as root, or with CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)", unix.EPERM}
)

// kind is an error that is another one too.
type kind struct {
	text string
	also error
}

func (k *kind) Error() string        { return k.text }
func (k *kind) Is(target error) bool { return errors.Is(k.also, target) }

// tracing wraps an error with the pid.
func tracing(pid uint32, err error) error { return fmt.Errorf("trace pid %d: %w", pid, err) }

// of wraps an error with the trace id.
func of(id uint64, err error) error { return fmt.Errorf("trace id %d: %w", id, err) }
