package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBlockedNamespace: a process that blocks reads of its namespaces does not block CanTrace.
func TestBlockedNamespace(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("the kernel has no FUSE: ", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	c := child("hang", t.TempDir(), fmt.Sprint(sleeper(t)))
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	ok(t, c.Start())
	defer context.AfterFunc(ctx, func() { c.Process.Kill() })()
	ok(t, c.Wait())
}

// hangNamespaces mounts a file system on a process's directory ns that never answers.
func hangNamespaces(_ string, args []string) error {
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)
	if err := unix.Mount("fuse", "/proc/"+args[0]+"/ns", "fuse", 0, options); err != nil {
		return err
	}
	var pid uint32
	fmt.Sscan(args[0], &pid)
	if err := CanTrace(pid); !errors.Is(err, errBlocked) {
		return fmt.Errorf("CanTrace returned %v", err)
	}
	return nil
}

// No two errors match each other for errors.Is.
func TestErrorsDiffer(t *testing.T) {
	all := []error{ErrNotRunning, ErrFull, ErrAlreadyTraced, ErrDuplicateID, ErrNotTraced, ErrNotEnded, ErrNoProcess,
		ErrBadPid, ErrNamespace, ErrLost, ErrLocked, ErrNotDirectory, ErrNoBPFFS, ErrReadOnly, ErrForeign, ErrShape,
		ErrNewerVersion, ErrUnsupported, ErrPermission}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(withTraceID(1, a), b) != (i == j) {
				t.Errorf("%v is %v: %v", a, b, i != j)
			}
		}
	}
}
