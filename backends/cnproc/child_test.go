package cnproc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// The test binary is also the program that the tests watch: with this variable
// set it plays one part.
const partVariable = "CNPROC_PART"

func TestMain(m *testing.M) {
	part := os.Getenv(partVariable)
	if part == "" {
		os.Exit(m.Run())
	}
	// The first goroutine runs on the leader of the thread group.
	runtime.LockOSThread()
	parts[part]()
	os.Exit(0)
}

func child(part string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), partVariable+"="+part)
	return cmd
}

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

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func setName(name string) {
	b := append([]byte(name), 0)
	unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0)
}

var parts = map[string]func(){
	"leader-first": func() {
		onThread(func() { time.Sleep(60 * time.Millisecond); endGroup(7) })
		endThread(3)
	},
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
		setName("brand new (name)")
		tid := onThread(func() { setName("a thread"); time.Sleep(20 * time.Millisecond); endThread(0) })
		fmt.Println(tid)
		time.Sleep(40 * time.Millisecond)
	},
	"drop-privileges": func() {
		parent := uint32(os.Getppid())
		s, err := Open(Options{})
		check(err)
		check(unix.Chroot("."))
		check(syscall.Setgroups(nil))
		check(syscall.Setgid(65534))
		check(syscall.Setuid(65534))
		fmt.Println("ready")
		for to := (&sink{room: 1 << 20}); ; time.Sleep(time.Millisecond) {
			check(s.populate(to))
			for _, ev := range to.events {
				if k := ev.Task.Known; ev.Kind == engine.KindExec && ev.Task.PPID == parent && int(ev.PID) != os.Getpid() {
					fmt.Printf("%d start=%v cmdline=%v filename=%v\n", ev.PID, k.Has(engine.FieldStart),
						k.Has(engine.FieldCmdline), k.Has(engine.FieldFilename))
					return
				}
			}
		}
	},
	"wait": func() {
		fmt.Println("ready")
		os.Stdin.Read(make([]byte, 1))
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
