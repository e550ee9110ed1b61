package barefork

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Clone describes how a script starts a process or thread: by clone3(2), or by clone(2) on kernels
// before 5.3. The zero value is a fork(2). If the kernel lacks a feature, the call fails; see
// [Clone.Lacks].
type Clone struct {
	// Flags are the flags of clone(2) and clone3(2).
	Flags uint64
	// Signal is sent to the parent when the process exits. Zero means SIGCHLD. Threads and
	// children of the caller's parent have none.
	Signal unix.Signal
	// ChildTID and ParentTID are the addresses for the id, if the flags request it. SetTID is
	// the address of the requested pid, or nil for any pid. Cgroup is a descriptor of a cgroup
	// v2 directory, or nil for the caller's cgroup. All are arguments as in [Script.Call].
	ChildTID, ParentTID, SetTID, Cgroup any

	old bool // use clone(2), even if there is clone3(2)
}

const (
	cloneClearSighand = 1 << 32 // Linux 5.5
	cloneIntoCgroup   = 1 << 33 // Linux 5.7
	cloneThread       = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM

	// The sizes of struct clone_args (linux/sched.h): up to 5.4, with set_tid, and with cgroup.
	cloneArgsOld    = 8 * 8
	cloneArgsSetTID = 10 * 8
	cloneArgsCgroup = 11 * 8
)

// needsClone3 reports whether clone(2) is insufficient.
func (c *Clone) needsClone3() bool {
	return c.SetTID != nil || c.Cgroup != nil || c.Flags&unix.CLONE_NEWTIME != 0 || c.Flags>>32 != 0
}

// byClone3 reports whether clone3(2) starts the process.
func (c *Clone) byClone3() bool { return c.needsClone3() || !c.old && clone3().exists == nil }

func (c *Clone) call() string {
	if c.byClone3() {
		return "clone3"
	}
	return "clone"
}

// arguments returns the number and arguments of the system call.
func (c *Clone) arguments() (number uintptr, args []any) {
	signal := unix.SIGCHLD
	if c.Signal != 0 {
		signal = c.Signal
	}
	if c.Flags&(unix.CLONE_THREAD|unix.CLONE_PARENT) != 0 {
		signal = 0
	}
	if !c.byClone3() {
		args := []any{c.Flags | uint64(signal), nil, c.ParentTID, c.ChildTID, nil}
		if runtime.GOARCH == "arm64" { // CONFIG_CLONE_BACKWARDS
			args[3], args[4] = nil, c.ChildTID
		}
		return unix.SYS_CLONE, args
	}
	flags, size, pids := c.Flags, cloneArgsOld, any(nil)
	if c.SetTID != nil {
		size, pids = cloneArgsSetTID, 1
	}
	if c.Cgroup != nil {
		size, flags = cloneArgsCgroup, flags|cloneIntoCgroup
	}
	return unix.SYS_CLONE3, []any{
		[]any{flags, nil, c.ChildTID, c.ParentTID, int(signal), nil, nil, nil, c.SetTID, pids, c.Cgroup}, size,
	}
}

// Lacks returns an errors.ErrUnsupported that names a feature which the running kernel lacks, or
// nil if the kernel has all features.
func (c *Clone) Lacks() error {
	if !c.needsClone3() {
		return nil
	}
	k := clone3()
	switch {
	case k.exists != nil:
		return k.exists
	case c.SetTID != nil && k.setTID != nil:
		return k.setTID
	case c.Cgroup != nil:
		return k.intoCgroup
	}
	return nil
}

func (c *scriptCall) lacks() error {
	if c.clone == nil {
		return nil
	}
	return c.clone.Lacks()
}

// cloneSupport has the errors for missing features of the kernel's clone3(2).
type cloneSupport struct{ exists, setTID, intoCgroup error }

// clone3 probes the kernel's clone3(2) by calls that every kernel rejects. The error is E2BIG if
// the kernel does not support the end of the structure.
var clone3 = sync.OnceValue(func() (k cloneSupport) {
	try := func(size uintptr, args [11]uint64) error {
		_, _, errno := unix.Syscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), size, 0)
		return errno
	}
	missing := func(what, since string, err error) error {
		return fmt.Errorf("kernel lacks %s (Linux %s): %w: %w", what, since, errors.ErrUnsupported, err)
	}
	if err := try(0, [11]uint64{}); !errors.Is(err, unix.EINVAL) { // ENOSYS, or seccomp
		k.exists = missing("clone3(2)", "5.3", err)
	}
	const tooManyPIDs = 9 // index of the number of pids
	if err := try(cloneArgsSetTID, [11]uint64{tooManyPIDs: 1 << 20}); !errors.Is(err, unix.EINVAL) {
		k.setTID = missing("set_tid of clone3(2)", "5.5", err)
	}
	if err := try(cloneArgsCgroup, [11]uint64{cloneIntoCgroup, 10: 1 << 40}); !errors.Is(err, unix.EINVAL) {
		k.intoCgroup = missing("CLONE_INTO_CGROUP of clone3(2)", "5.7", err)
	}
	return k
})

// noClearSighand is set once the kernel has rejected CLONE_CLEAR_SIGHAND.
var noClearSighand atomic.Bool

// startCleared starts a process that first removes the signal handlers of this program, as they
// would crash the process. Signals are blocked until then.
func startCleared(s *Script, c Clone) (*Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, old := ^uint64(0), uint64(0)
	if err := signalMask(&all, &old); err != nil {
		return nil, err
	}
	defer signalMask(&old, nil)
	begin := new(Script)
	for sig := unix.Signal(1); sig <= 64; sig++ {
		var action [4]uint64 // struct sigaction: handler, flags, restorer, mask
		const ignored = 1
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0)
		if errno == 0 && action[0] > ignored {
			begin.Call("rt_sigaction", unix.SYS_RT_SIGACTION, int(sig), make([]uint64, len(action)), nil, 8)
		}
	}
	begin.Call("rt_sigprocmask", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, []uint64{old}, nil, 8)
	begin.calls = append(begin.calls, scriptCall{name: "close", number: unix.SYS_CLOSE, args: []any{-1}, onFailure: s})
	return start(s, c, begin)
}

// signalMask sets the blocked signals of this thread.
func signalMask(set, old *uint64) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return fmt.Errorf("block signals: %w", errno)
	}
	return nil
}
