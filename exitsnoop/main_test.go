package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/barefork"
	"golang.org/x/sys/unix"
)

// childMode names what this binary does instead of running tests.
const childMode = "QUARK_EXITSNOOP_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "":
		os.Exit(m.Run())
	case "ensure":
		if err := EnsureRunning(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func needKernel(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := inInitialNamespace(); err != nil {
		t.Skip(err)
	}
	err := attachOnce()
	if errors.Is(err, ErrPermission) || errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// attachOnce attaches the program the first time that it is called, and always returns the
// result of that.
var attachOnce = sync.OnceValue(func() error {
	s, err := NewStoreFromAttachWith(Options{MaxTracing: 1, MaxEvents: 1})
	if err == nil {
		err = s.Close()
	}
	return err
})

func private(t testing.TB, o Options) *Store {
	t.Helper()
	needKernel(t)
	s, err := NewStoreFromAttachWith(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// root makes a directory for pins, from which all is removed after the test.
func root(t testing.TB) string {
	t.Helper()
	needKernel(t)
	dir := t.TempDir()
	t.Cleanup(func() {
		unix.Unmount(filepath.Join(dir, dirName), unix.MNT_DETACH)
	})
	return dir
}

func start(t testing.TB, s *barefork.Script) *barefork.Process {
	t.Helper()
	p, err := barefork.Start(s, barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Kill(p.PID, unix.SIGKILL)
		unix.Wait4(p.PID, nil, 0, nil)
		p.Free()
	})
	return p
}

// sleeper starts a process that waits for a signal.
func sleeper(t testing.TB) uint32 { return uint32(start(t, new(barefork.Script).Stop()).PID) }

// end kills a process and returns its wait status.
func end(t testing.TB, pid uint32) unix.WaitStatus {
	t.Helper()
	unix.Kill(int(pid), unix.SIGKILL)
	return reap(t, pid)
}

func reap(t testing.TB, pid uint32) (st unix.WaitStatus) {
	t.Helper()
	for {
		_, err := unix.Wait4(int(pid), &st, 0, nil)
		if err == nil {
			return st
		}
		if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

func want(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error is %v, want %v", err, target)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pinnedStore(t testing.TB, root string) *Store {
	t.Helper()
	s, err := NewStore(root)
	ok(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func ensureChild(root string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", root)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), childMode+"=ensure")
	return c
}

const soon = 10 * time.Second
