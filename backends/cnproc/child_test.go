package cnproc

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/sourcetest"
)

func TestMain(m *testing.M) { sourcetest.Main(m, parts) }

func endThread(code uintptr) { unix.Syscall(unix.SYS_EXIT, code, 0, 0) }
func endGroup(code uintptr)  { unix.Syscall(unix.SYS_EXIT_GROUP, code, 0, 0) }

// onThread runs f on a thread that is not the leader and returns its number.
func onThread(f func()) int {
	tid := make(chan int)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		f()
	}()
	return <-tid
}

var parts = map[string]func(){
	"leader-last": func() {
		onThread(func() { endThread(0) })
		time.Sleep(30 * time.Millisecond)
		endGroup(5)
	},
	"thread-ends-group": func() {
		onThread(func() { endGroup(9) })
		time.Sleep(time.Minute)
	},
	"thread-crashes": func() {
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
		onThread(func() { unix.Kill(os.Getpid(), unix.SIGKILL) })
		time.Sleep(time.Minute)
	},
	"exec-from-thread": func() {
		onThread(func() { unix.Exec("/bin/sh", []string{"sh", "-c", "sleep 0.05; exit 6"}, nil) })
		time.Sleep(time.Minute)
	},
	"ids": func() {
		unix.RawSyscall(unix.SYS_SETRESGID, 1234, 1235, 1236)
		unix.RawSyscall(unix.SYS_SETRESUID, 4321, 4322, 4323)
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	},
	"comm": func() {
		sourcetest.SetName("brand new (name)")
		tid := onThread(func() { sourcetest.SetName("a thread"); time.Sleep(20 * time.Millisecond); endThread(0) })
		fmt.Println(tid)
		time.Sleep(40 * time.Millisecond)
	},
	"drop-privileges": func() {
		parent := uint32(os.Getppid())
		s, err := Open(Options{})
		sourcetest.Try("open", err)
		sourcetest.Try("chroot", unix.Chroot("."))
		sourcetest.Try("setgroups", syscall.Setgroups(nil))
		sourcetest.Try("setgid", syscall.Setgid(65534))
		sourcetest.Try("setuid", syscall.Setuid(65534))
		fmt.Println("ready")
		for to := (&sink{room: 1 << 20}); ; time.Sleep(time.Millisecond) {
			sourcetest.Try("populate", s.populate(to))
			for _, ev := range to.events {
				if k := ev.Task.Known; ev.Kind == engine.KindExec && ev.Task.PPID == parent && int(ev.PID) != os.Getpid() {
					fmt.Printf("%d start=%v cmdline=%v filename=%v\n", ev.PID, k.Has(engine.FieldStart),
						k.Has(engine.FieldCmdline), k.Has(engine.FieldFilename))
					return
				}
			}
		}
	},
	"threads": func() {
		for range 20 {
			done := make(chan bool)
			go func() { runtime.LockOSThread(); close(done) }() // its thread ends with it
			<-done
		}
	},
}

// kernel opens a source on the kernel of this machine or skips the test.
func kernel(t testing.TB, o Options) *Source {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("wants root: the proc connector needs CAP_NET_ADMIN")
	}
	s, err := Open(o)
	if err != nil {
		for _, reason := range []string{"CONFIG_CONNECTOR", "CONFIG_PROC_EVENTS", "initial pid namespace", "initial user namespace"} {
			if strings.Contains(err.Error(), reason) {
				t.Skip(err)
			}
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// watch populates to until done says that it is enough.
func watch(t testing.TB, s *Source, to *sink, done func() bool) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if err := s.populate(to); err != nil {
			t.Fatal(err)
		}
		if done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the event did not come")
		}
		if s.Arm(false) {
			unix.Poll(fds, 100)
		}
	}
}

func lockThread() { runtime.LockOSThread() }
