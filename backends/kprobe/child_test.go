package kprobe

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

// The tests run this binary again as their subject: childMode names what it
// then does instead of running tests.
const childMode = "QUARK_KPROBE_CHILD"

var children = map[string]func(){
	"exit":         func() { os.Exit(7) },
	"wait":         func() { io.Copy(io.Discard, os.Stdin) },
	"end":          end,
	"truth":        truth,
	"leader-first": leaderFirst,
	"exec-thread":  execThread,
	"end-together": endTogether,
	"set-ids":      setIDs,
	"set-fs-ids":   setFSIDs,
	"rename":       rename,
	"deep":         deep,
	"mounted":      mounted,
	"chrooted":     chrooted,
	"memfd":        memfd,
	"dropped":      dropped,
	"hold":         hold,
}

func TestMain(m *testing.M) {
	if f := children[os.Getenv(childMode)]; f != nil {
		f()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func init() {
	if os.Getenv(childMode) != "" {
		runtime.LockOSThread() // main runs on the leader
	}
}

func child(mode string, args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Path, _ = os.Executable()
	c.Env = append(os.Environ(), childMode+"="+mode)
	c.Stderr = os.Stderr
	return c
}

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

func try(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "child: %s: %v\n", what, err)
		os.Exit(99)
	}
}

// become executes this binary again in another mode.
func become(mode string) {
	exe, err := os.Executable()
	try("executable", err)
	try("exec", syscall.Exec(exe, []string{"sh", mode}, []string{childMode + "=" + mode}))
}

// truth prints what a process sees of itself, a line for each.
func truth() {
	link := func(name string) string { s, _ := os.Readlink("/proc/self/" + name); return s }
	file := func(name string) []byte { b, _ := os.ReadFile("/proc/self/" + name); return b }
	line := func(name, value string) { fmt.Printf("%s=%q\n", name, value) }
	line("exe", link("exe"))
	line("cwd", link("cwd"))
	line("cmdline", string(file("cmdline")))
	for _, ns := range []string{"uts", "ipc", "mnt", "net"} {
		line(ns, strings.Trim(strings.TrimPrefix(link("ns/"+ns), ns+":"), "[]"))
	}
	for l := range strings.Lines(string(file("status"))) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), ":")
		if slices.Contains([]string{"Name", "PPid", "Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}, k) {
			line(k, strings.Join(strings.Fields(v), " "))
		}
	}
	stat := file("stat")
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	line("pgid", f[2])
	line("sid", f[3])
	line("tty", f[4])
	line("start", f[19])
	line("cgroup", cgroupTruth(string(file("cgroup"))))
}

func cgroupTruth(s string) (path string) {
	for l := range strings.Lines(s) {
		p := strings.SplitN(strings.TrimSuffix(l, "\n"), ":", 3)
		if p[0] == "0" && p[1] == "" {
			return p[2]
		}
		if slices.Contains(strings.Split(p[1], ","), "pids") {
			path = p[2]
		}
	}
	return path
}

func parseTruth(t *testing.T, out []byte) map[string]string {
	t.Helper()
	m := map[string]string{}
	for l := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), "=")
		s, err := strconv.Unquote(v)
		if err != nil {
			t.Fatalf("child said %q: %v", l, err)
		}
		m[k] = s
	}
	return m
}

// end ends with a code or by a signal.
func end() {
	n, err := strconv.Atoi(os.Args[2])
	try("number", err)
	if os.Args[1] == "exit" {
		os.Exit(n)
	}
	try("core", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}))
	var byDefault [64]byte // a zeroed struct kernel_sigaction; Go's runtime has its own otherwise
	if n != int(unix.SIGKILL) {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(ptr(byDefault[:])), 0, 8, 0, 0)
		if errno != 0 {
			try("sigaction", errno)
		}
	}
	try("kill", unix.Kill(os.Getpid(), unix.Signal(n)))
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
		become("exit")
	}()
	time.Sleep(time.Minute)
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
	try("setresgid", syscall.Setresgid(11, 12, 13))
	try("setresuid", syscall.Setresuid(21, 22, 23))
	_, err := syscall.Setsid()
	try("setsid", err)
}

// setFSIDs changes ids of file system access, which are no ids of quark's, sets
// ids to what they are, and then changes its saved id.
func setFSIDs() {
	set := func(number uintptr, args ...uintptr) {
		_, _, errno := unix.RawSyscall(number, args[0], args[len(args)/2], args[len(args)-1])
		if errno != 0 {
			try("set ids", errno)
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

func rename() {
	name := []byte("new name\x00")
	try("prctl", unix.Prctl(unix.PR_SET_NAME, uintptr(ptr(name)), 0, 0, 0))
}

// deep goes down as many directories as its argument says below its directory.
func deep() {
	n, err := strconv.Atoi(os.Args[1])
	try("depth", err)
	for i := range n {
		name := fmt.Sprintf("d%d", i)
		try("mkdir", unix.Mkdir(name, 0o755))
		try("chdir", unix.Chdir(name))
	}
	become("truth")
}

// mounted has its directory on a mount inside of a bind mount.
func mounted() {
	try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	try("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, d := range []string{"src", "src/inner", "dst"} {
		try("mkdir", os.Mkdir(d, 0o755))
	}
	try("bind", unix.Mount("src", "dst", "", unix.MS_BIND, ""))
	try("tmpfs", unix.Mount("none", "dst/inner", "tmpfs", 0, ""))
	try("mkdir", os.MkdirAll("dst/inner/x/y", 0o755))
	try("chdir", unix.Chdir("dst/inner/x/y"))
	become("truth")
}

// chrooted sees its directory as /sub and itself as /self; it has no /proc.
func chrooted() {
	exe, err := os.ReadFile("/proc/self/exe")
	try("read", err)
	try("write", os.WriteFile("self", exe, 0o755))
	try("mkdir", os.Mkdir("sub", 0o755))
	try("chroot", unix.Chroot("."))
	try("chdir", unix.Chdir("/sub"))
	try("exec", syscall.Exec("/self", []string{"sh"}, []string{childMode + "=exit"}))
}

func memfd() {
	exe, err := os.ReadFile("/proc/self/exe")
	try("read", err)
	fd, err := unix.MemfdCreate("in memory", 0)
	try("memfd", err)
	for len(exe) > 0 {
		n, err := unix.Write(fd, exe)
		try("write", err)
		exe = exe[n:]
	}
	try("exec", syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"sh"}, []string{childMode + "=exit"}))
}

// dropped opens a source, gives up its privileges and its root, and when told
// so says what it saw, and closes.
func dropped() {
	s, err := Open(Options{})
	try("open", err)
	try("chroot", unix.Chroot(os.TempDir()))
	try("chdir", unix.Chdir("/"))
	try("setresgid", syscall.Setresgid(65534, 65534, 65534))
	try("setresuid", syscall.Setresuid(65534, 65534, 65534))
	for !s.Arm(true) {
		try("populate", s.Populate(engine.NewBuffer(1000)))
	}
	fmt.Println()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 5000)
		if n == 1 {
			break
		}
		if err != unix.EINTR {
			try("poll", fmt.Errorf("woke %d: %v", n, err))
		}
	}
	fmt.Scanln()
	b := engine.NewBuffer(1000)
	try("populate", s.Populate(b))
	st, err := s.Stats()
	try("stats", err)
	fmt.Println(b.Len(), st.Produced)
	try("close", s.Close())
}

// hold opens a source and waits to be killed.
func hold() {
	_, err := Open(Options{})
	try("open", err)
	fmt.Println()
	time.Sleep(time.Minute)
}
