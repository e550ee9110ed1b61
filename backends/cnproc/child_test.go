package cnproc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func TestMain(m *testing.M) { conform.Main(m, programs) }

// programs are the child processes of the tests.
var programs = map[string]func(){
	"drop-privileges": func() {
		parent := uint32(os.Getppid())
		s, err := Open(source.Options{}, Options{})
		conform.Try("open", err)
		conform.Try("chroot", unix.Chroot("."))
		conform.Try("setgroups", syscall.Setgroups(nil))
		conform.Try("setgid", syscall.Setgid(65534))
		conform.Try("setuid", syscall.Setuid(65534))
		fmt.Println("ready")
		to := &sink{room: 1 << 20}
		for range retry.For(time.Minute) {
			conform.Try("populate", s.Populate(to))
			for _, ev := range to.events {
				if k := ev.Task.Known; ev.Kind == engine.KindExec && ev.Task.PPID == parent && int(ev.PID) != os.Getpid() {
					fmt.Printf("%d start=%v cmdline=%v filename=%v\n", ev.PID, k.Has(engine.FieldStart),
						k.Has(engine.FieldArgs), k.Has(engine.FieldExe))
					return
				}
			}
		}
	},
	"wait": func() {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
	},
	"threads": func() {
		for range 20 {
			done := make(chan bool)
			// the thread exits with this goroutine
			go func() { runtime.LockOSThread(); close(done) }()
			<-done
		}
	},
}

// openOnKernel opens a source on the running kernel, or skips the test.
func openOnKernel(t testing.TB, o Options, shared ...source.Options) *Source {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the proc connector needs CAP_NET_ADMIN")
	}
	s, err := Open(append(shared, source.Options{})[0], o)
	if err != nil {
		for _, reason := range []string{"CONFIG_CONNECTOR", "CONFIG_PROC_EVENTS"} {
			if strings.Contains(err.Error(), reason) {
				t.Skip(err)
			}
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// watch reads s into to until done returns true.
func watch(t testing.TB, s *Source, to *sink, done func() bool) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		if done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the events did not arrive before the deadline")
		}
		if s.Arm(false) {
			unix.Poll(fds, 100)
		}
	}
}

func lockThread() { runtime.LockOSThread() }

// command is exec.Command for a program of the host. If the program is missing, as in a guest,
// command writes a replacement for true(1), or skips the test.
func command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if name == "true" {
		name = filepath.Join(t.TempDir(), name)
		if err := tinyelf.Write(name, 0); err != nil {
			t.Fatal(err)
		}
	} else if _, err := exec.LookPath(name); err != nil {
		t.Skipf("a guest has no such program: %v", err)
	}
	return exec.Command(name, args...)
}
