package sourcetest

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/internal/tinyelf"
	"golang.org/x/sys/unix"
)

var programs = map[string]func(){
	"exit":         func() { os.Exit(7) },
	"wait":         wait,
	"end":          end,
	"truth":        truth,
	"leader-first": leaderFirst,
	"exec-thread":  execThread,
	"end-together": endTogether,
	"set-ids":      setIDs,
	"set-fs-ids":   setFSIDs,
	"rename":       func() { SetName("new name") },
	"deep":         deep,
	"mounted":      mounted,
	"chrooted":     chrooted,
	"memfd":        memfd,
}

// wait says that it runs and ends with its input.
func wait() {
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// end ends with a code or by a signal.
func end() {
	n, err := strconv.Atoi(os.Args[2])
	Try("number", err)
	if os.Args[1] == "exit" {
		os.Exit(n)
	}
	Try("core", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}))
	var byDefault [64]byte // a zeroed struct kernel_sigaction; Go's runtime has its own otherwise
	if n != int(unix.SIGKILL) {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION,
			uintptr(n), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
		if errno != 0 {
			Try("sigaction", errno)
		}
	}
	Try("kill", unix.Kill(os.Getpid(), unix.Signal(n)))
	time.Sleep(time.Minute)
}

// leaderFirst ends the leader with one status and the group with another.
func leaderFirst() {
	go func() {
		runtime.LockOSThread()
		time.Sleep(50 * time.Millisecond)
		unix.Exit(7)
	}()
	time.Sleep(10 * time.Millisecond)
	unix.Syscall(unix.SYS_EXIT, 3, 0, 0)
}

// execThread executes "exit" from a thread that is not the leader.
func execThread() {
	go func() {
		runtime.LockOSThread()
		become(executable(), "exit")
	}()
	time.Sleep(time.Minute)
}

func executable() string {
	path, err := os.Executable()
	Try("executable", err)
	return path
}

// endTogether ends all threads at the same moment, each by itself.
func endTogether() {
	var ready, start sync.WaitGroup
	start.Add(1)
	for range 4 {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			start.Wait()
			unix.Syscall(unix.SYS_EXIT, 1, 0, 0)
		}()
	}
	ready.Wait()
	// The runtime's own threads go with the group.
	go func() { time.Sleep(5 * time.Millisecond); unix.Exit(5) }()
	start.Done()
	unix.Syscall(unix.SYS_EXIT, 5, 0, 0)
}

func setIDs() {
	Try("setresgid", syscall.Setresgid(11, 12, 13))
	Try("setresuid", syscall.Setresuid(21, 22, 23))
	_, err := syscall.Setsid()
	Try("setsid", err)
}

// setFSIDs changes ids of file system access, which are no ids of quark's, sets
// ids to what they are, and then changes its saved id.
func setFSIDs() {
	set := func(number uintptr, args ...uintptr) {
		_, _, errno := unix.RawSyscall(number, args[0], args[len(args)/2], args[len(args)-1])
		if errno != 0 {
			Try("set ids", errno)
		}
	}
	const same = ^uintptr(0)
	for range 2 {
		set(unix.SYS_SETFSUID, 5)
		set(unix.SYS_SETFSUID, 0)
		set(unix.SYS_SETFSGID, 5)
		set(unix.SYS_SETFSGID, 6)
		set(unix.SYS_SETRESUID, same, same, same)
		set(unix.SYS_SETRESGID, same, same, same) // with fsgid
		set(unix.SYS_SETRESUID, 0, 0, 0)
	}
	set(unix.SYS_SETRESUID, 0, 0, 7)
}

// SetName names the calling thread.
func SetName(name string) {
	b := append([]byte(name), 0)
	Try("prctl", unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0))
}

// deep goes down as many directories as its argument says below its directory.
func deep() {
	n, err := strconv.Atoi(os.Args[1])
	Try("depth", err)
	for i := range n {
		name := fmt.Sprintf("d%d", i)
		Try("mkdir", unix.Mkdir(name, 0o755))
		Try("chdir", unix.Chdir(name))
	}
	become(executable(), "truth", "truth")
}

// mounted has its directory on a mount inside of a bind mount.
func mounted() {
	Try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	Try("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, d := range []string{"src", "src/inner", "dst"} {
		Try("mkdir", os.Mkdir(d, 0o755))
	}
	Try("bind", unix.Mount("src", "dst", "", unix.MS_BIND, ""))
	Try("tmpfs", unix.Mount("none", "dst/inner", "tmpfs", 0, ""))
	Try("mkdir", os.MkdirAll("dst/inner/x/y", 0o755))
	Try("chdir", unix.Chdir("dst/inner/x/y"))
	become(executable(), "truth", "truth")
}

// chrooted sees its directory as /sub and the program that it executes as /self.
// There is no /proc, and no loader that a copy of this binary may need.
func chrooted() {
	Try("write", tinyelf.Write("self", 7))
	Try("mkdir", os.Mkdir("sub", 0o755))
	Try("chroot", unix.Chroot("."))
	Try("chdir", unix.Chdir("/sub"))
	become("/self", "exit")
}

func memfd() {
	exe, err := os.ReadFile("/proc/self/exe")
	Try("read", err)
	fd, err := unix.MemfdCreate("in memory", 0)
	Try("memfd", err)
	for len(exe) > 0 {
		n, err := unix.Write(fd, exe)
		Try("write", err)
		exe = exe[n:]
	}
	become(fmt.Sprintf("/proc/self/fd/%d", fd), "exit")
}
