package exitsnoop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/retry"
	"golang.org/x/sys/unix"
)

// childMode selects what this binary runs instead of tests.
const childMode = "QUARK_EXITSNOOP_CHILD"

// children are functions that this binary runs instead of tests. root is the state directory.
var children = map[string]func(root string, args []string) error{
	"ensure": func(root string, _ []string) error { return EnsureRunning(root) },
	"trace":  traceAndPause,
	"wait":   waitAndPrint,

	"daemonize": daemonize,
	"fork":      forkOn,
	"blocked":   traceBlocked,
	"hang":      hangNamespaces,
}

func TestMain(m *testing.M) {
	child := children[os.Getenv(childMode)]
	if child == nil {
		os.Exit(m.Run())
	}
	if err := child(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

// attachOnce attaches the program at the first call, and always returns that result.
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

// root creates a directory for pins, which is emptied after the test.
func root(t testing.TB) string {
	t.Helper()
	needKernel(t)
	if kernelversion.Realtime() && !kernelversion.AtLeast("6.5") {
		t.Skip("no pins with PREEMPT_RT")
	}
	dir := t.TempDir()
	t.Cleanup(func() { unix.Unmount(filepath.Join(dir, dirName), unix.MNT_DETACH) })
	return dir
}

func start(t testing.TB, s *barefork.Script) *barefork.Process {
	t.Helper()
	p, err := barefork.Start(s, barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// sleeper starts a process that waits for a signal.
func sleeper(t testing.TB) uint32 { return uint32(start(t, new(barefork.Script).Stop()).PID) }

// end kills a process and returns its wait status.
func end(t testing.TB, pid uint32) syscall.WaitStatus {
	t.Helper()
	unix.Kill(int(pid), unix.SIGKILL)
	return reap(t, pid)
}

func reap(t testing.TB, pid uint32) (st syscall.WaitStatus) {
	t.Helper()
	for {
		_, err := syscall.Wait4(int(pid), &st, 0, nil)
		if err == nil {
			return st
		}
		if !errors.Is(err, unix.EINTR) {
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

// child returns a command that runs one of children in this binary.
func child(mode, root string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", append([]string{root}, args...)...)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), childMode+"="+mode)
	c.Stderr = os.Stderr
	return c
}

// gate is a pipe at which one process waits for another.
type gate struct{ r, w int }

func pipe(t testing.TB) gate {
	t.Helper()
	var fds [2]int
	ok(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return gate{fds[0], fds[1]}
}

func (g gate) open(t testing.TB) {
	t.Helper()
	_, err := unix.Write(g.w, []byte{1})
	ok(t, err)
}

// wait waits until another process opens the gate.
func (g gate) wait(t testing.TB) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(g.r), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(soon.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("the process is not ready after %v: %v", soon, err)
		}
		_, err = unix.Read(g.r, make([]byte, 1))
		ok(t, err)
		return
	}
}

// awaitZombie waits until the leader of a process has ended.
func awaitZombie(t testing.TB, pid uint32) {
	t.Helper()
	for range retry.For(soon) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		ok(t, err)
		if _, after, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(after, "Z") {
			return
		}
	}
	t.Fatalf("the leader of %d has not ended", pid)
}

const soon = 10 * time.Second
