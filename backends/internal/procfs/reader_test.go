package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func open(t testing.TB) *Reader {
	t.Helper()
	r, err := Open()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { r.Close() })
	if r.Readable().Has(engine.FieldEnviron) {
		t.Error("got an environment that was not requested")
	}
	r.ReadEnviron(func(ev *engine.RawEvent, all []byte, cut bool) { ev.Set(engine.FieldEnviron, all) })
	return r
}

// start runs a program that waits until its input is closed.
func start(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	// cmd.Start returns during the exec, before the new image is readable.
	r := open(t)
	for range retry.For(10 * time.Second) {
		var ev engine.RawEvent
		if _, err := r.Read(uint32(cmd.Process.Pid), Readable, &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Task.Known.Has(engine.FieldArgs) {
			return cmd
		}
	}
	t.Fatal("the program did not run before the deadline")
	return nil
}

func TestScanOfOwnProcess(t *testing.T) {
	r := open(t)
	var found int
	err := r.Scan(func(ev *engine.RawEvent) error {
		if ev.PID != uint32(os.Getpid()) {
			return nil
		}
		found++
		checkSelf(t, ev)
		return nil
	})
	if err != nil || found != 1 {
		t.Fatalf("got this process %d times, error %v, want once", found, err)
	}
	stop := errors.New("stop")
	if err := r.Scan(func(*engine.RawEvent) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got error %v, want the callback's", err)
	}
}

func checkSelf(t *testing.T, ev *engine.RawEvent) {
	t.Helper()
	task := &ev.Task
	if task.Known != Readable {
		t.Errorf("got unknown fields %v", Readable&^task.Known)
	}
	ru, re, rs := unix.Getresuid()
	gr, ge, gs := unix.Getresgid()
	if got, want := task.Cred, (engine.Credentials{UID: uint32(ru), EUID: uint32(re), SUID: uint32(rs), GID: uint32(gr), EGID: uint32(ge), SGID: uint32(gs)}); got != want {
		t.Errorf("got ids %+v, want %+v", got, want)
	}
	sid, _ := unix.Getsid(0)
	if task.PPID != uint32(os.Getppid()) || task.PGID != uint32(unix.Getpgrp()) || task.SID != uint32(sid) {
		t.Errorf("got ppid %d, pgid %d, sid %d", task.PPID, task.PGID, task.SID)
	}
	exe, _ := os.Readlink("/proc/self/exe")
	cwd, _ := os.Getwd()
	comm, _ := os.ReadFile("/proc/self/comm")
	cmdline, _ := os.ReadFile("/proc/self/cmdline")
	for f, want := range map[engine.Field]string{
		engine.FieldExe: exe, engine.FieldCwd: cwd,
		engine.FieldComm: strings.TrimSuffix(string(comm), "\n"), engine.FieldArgs: string(cmdline),
	} {
		if got := string(ev.Bytes(f)); got != want {
			t.Errorf("%v: got %q, want %q", f, got, want)
		}
	}
	for name, got := range map[string]uint32{"uts": task.NS.UTS, "ipc": task.NS.IPC, "mnt": task.NS.Mnt, "net": task.NS.Net,
		"pid": task.NS.PID, "user": task.NS.User, "cgroup": task.NS.Cgroup, "time": task.NS.Time} {
		if link, _ := os.Readlink("/proc/self/ns/" + name); link != fmt.Sprintf("%s:[%d]", name, got) {
			t.Errorf("namespace %s: got %d, want %s", name, got, link)
		}
	}
	if task.NSPID != uint32(os.Getpid()) {
		t.Errorf("got pid %d in its namespace", task.NSPID)
	}
	var hdr = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	unix.Capget(&hdr, &data[0])
	for _, c := range []struct {
		name string
		got  uint64
		want [2]uint32
	}{
		{"effective", task.Caps.Effective, [2]uint32{data[0].Effective, data[1].Effective}},
		{"permitted", task.Caps.Permitted, [2]uint32{data[0].Permitted, data[1].Permitted}},
		{"inheritable", task.Caps.Inheritable, [2]uint32{data[0].Inheritable, data[1].Inheritable}},
	} {
		if c.got != uint64(c.want[1])<<32|uint64(c.want[0]) {
			t.Errorf("%s capabilities: got %x, want %x", c.name, c.got, c.want)
		}
	}
	if task.StartUnit != engine.ProcStartUnit || task.Start%engine.ProcStartUnit != 0 {
		t.Errorf("got start %d, unit %d", task.Start, task.StartUnit)
	}
}

func TestReadOnlyWhatIsWanted(t *testing.T) {
	r := open(t)
	for f := range engine.Field(engine.NumFields) {
		var ev engine.RawEvent
		if _, err := r.Read(uint32(os.Getpid()), f.Set(), &ev); err != nil {
			t.Fatal(err)
		}
		if want := f.Set() & r.Readable(); ev.Task.Known != want {
			t.Errorf("want %v only, got %v", f, ev.Task.Known)
		}
	}
}

func TestStartTimeIsOfBoot(t *testing.T) {
	r := open(t)
	var before, after unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &before)
	cmd := start(t, "cat")
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &after)
	var ev engine.RawEvent
	if _, err := r.Read(uint32(cmd.Process.Pid), Readable, &ev); err != nil {
		t.Fatal(err)
	}
	if got := ev.Task.Start; got/engine.ProcStartUnit < uint64(before.Nano())/engine.ProcStartUnit || got > uint64(after.Nano()) {
		t.Errorf("got start %d, want it between %d and %d", got, before.Nano(), after.Nano())
	}
}

func filename(t *testing.T, r *Reader, pid int) string {
	t.Helper()
	var ev engine.RawEvent
	if _, err := r.Read(uint32(pid), Readable, &ev); err != nil {
		t.Fatal(err)
	}
	return string(ev.Bytes(engine.FieldExe))
}

func TestDeletedExecutable(t *testing.T) {
	r := open(t)
	for _, name := range []string{"prog", "prog (deleted)"} {
		for _, linked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s linked=%v", name, linked), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), name)
				if err := tinyelf.WriteWaiter(path, 0); err != nil {
					t.Fatal(err)
				}
				cmd := start(t, path)
				want := path
				if deleted([]byte(name)) {
					// The executable may have had a second name that was
					// removed.
					want = ""
				}
				if got := filename(t, r, cmd.Process.Pid); got != want {
					t.Errorf("before the removal: got %q", got)
				}
				if want = path; linked {
					want = "" // another file; it may have the name
					if err := os.Link(path, path+".other"); err != nil {
						t.Skip(err)
					}
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if got := filename(t, r, cmd.Process.Pid); got != want {
					t.Errorf("after the removal: got %q", got)
				}
			})
		}
	}
}

// A removed file is not reported as a memfd, even if its name looks like one.
func TestRemovedFileNamedMemfd(t *testing.T) {
	r := open(t)
	path := fmt.Sprintf("/memfd:evil-%d", os.Getpid())
	if err := tinyelf.WriteWaiter(path, 0); err != nil {
		t.Skip(err)
	}
	defer os.Remove(path)
	cmd := start(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := filename(t, r, cmd.Process.Pid); got != path {
		t.Errorf("got %q, want %q", got, path)
	}
}

func TestTaskComm(t *testing.T) {
	for _, c := range []struct {
		flags      uint32
		comm, want string
	}{
		{proctext.FlagKthread, "kworker/0:1-events", "kworker/0:1"},
		{proctext.FlagKthread, "kworker/u8:2+events_unbound", "kworker/u8:2"},
		{proctext.FlagKthread, "kworker/R-quota_events_unbound", "kworker/R-quota"},
		{proctext.FlagKthread, "rcu_tasks_trace_kthread", "rcu_tasks_trace"},
		{proctext.FlagKthread, "kthreadd", "kthreadd"},
		{0, "kworker/0:1-x", "kworker/0:1-x"},
	} {
		if got := taskComm(&proctext.Stat{Flags: c.flags, Comm: []byte(c.comm)}); string(got) != c.want {
			t.Errorf("%q: got comm %q, want %q", c.comm, got, c.want)
		}
	}
}

func TestMemfd(t *testing.T) {
	r := open(t)
	fd, err := unix.MemfdCreate("some name", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	path := fmt.Sprintf("/proc/self/fd/%d", fd)
	if err := tinyelf.WriteWaiter(path, 0); err != nil {
		t.Fatal(err)
	}
	cmd := start(t, path)
	if got := filename(t, r, cmd.Process.Pid); got != "memfd:some name" {
		t.Errorf("got executable %q, want %q", got, "memfd:some name")
	}
}

// Paths start at the root of the process, as in the kernel's events. Paths outside of it are
// unknown.
func TestPathsInAnotherRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to change the root directory")
	}
	root := t.TempDir()
	program, err := tinyelf.Waiter(0)
	if err := errors.Join(err, os.MkdirAll(root+"/dir", 0o755), os.WriteFile(root+"/program", program, 0o755)); err != nil {
		t.Fatal(err)
	}
	r := open(t)
	for dir, want := range map[string]string{"/": "/", "/dir": "/dir", "outside": ""} {
		cmd := exec.Command("/program")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		cmd.Dir = dir
		if dir == "outside" { // see TestMain
			cmd.SysProcAttr, cmd.Dir = nil, t.TempDir()
			cmd.Path, cmd.Args = "/proc/self/exe", []string{"chroot", root}
			cmd.Env = append(os.Environ(), "QUARK_PROCFS_CHROOT="+root)
		}
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		io.ReadFull(out, make([]byte, 1)) // waits until the program runs
		var ev engine.RawEvent
		if _, err := r.Read(uint32(cmd.Process.Pid), Readable, &ev); err != nil {
			t.Fatal(err)
		}
		if got := string(ev.Bytes(engine.FieldCwd)); got != want {
			t.Errorf("got cwd %q, want %q", got, want)
		}
		if got := string(ev.Bytes(engine.FieldExe)); got != "/program" {
			t.Errorf("got executable %q", got)
		}
		in.Close()
		cmd.Wait()
	}
}

// A path is relative to the root of the process at the time of the read, or unknown. In this test
// each new root is below the previous root, and the working directory is in the root.
func TestPathsWhileTheRootChanges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to change the root directory")
	}
	const depth = 100
	top := t.TempDir()
	if err := os.MkdirAll(top+strings.Repeat("/dir", depth), 0o755); err != nil {
		t.Fatal(err)
	}
	s := new(barefork.Script).Call("chdir", unix.SYS_CHDIR, top)
	for range depth {
		s.Call("chroot", unix.SYS_CHROOT, ".").Call("chdir", unix.SYS_CHDIR, "dir")
	}
	s.Stop()
	own, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r, allowed := open(t), []string{"", own, top, "/", "/dir"}
	for range 100 {
		p, err := barefork.Start(s, barefork.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			var ev engine.RawEvent
			r.Read(uint32(p.PID), engine.FieldCwd.Set(), &ev)
			if got := string(ev.Bytes(engine.FieldCwd)); !slices.Contains(allowed, got) {
				t.Errorf("got cwd %q", got)
			}
		}
		p.Kill()
	}
}

// A process in a removed root directory has the directory /.
func TestRemovedRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to change the root directory")
	}
	dir := t.TempDir()
	s := new(barefork.Script).Call("chdir", unix.SYS_CHDIR, dir).Call("chroot", unix.SYS_CHROOT, ".").Stop()
	p, err := barefork.Start(s, barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for ok := false; !ok; _, ok = p.Result(0, 1) {
		runtime.Gosched() // until the chroot has returned
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	var ev engine.RawEvent
	if _, err := open(t).Read(uint32(p.PID), engine.FieldCwd.Set(), &ev); err != nil || string(ev.Bytes(engine.FieldCwd)) != "/" {
		t.Errorf("got cwd %q, error %v", ev.Bytes(engine.FieldCwd), err)
	}
}

// For a reader in another root, paths of a process outside of that root are unknown: they could
// start at either root. A process in another mount namespace reports its own paths.
func TestPathsFromAnotherRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to change the root directory")
	}
	root := t.TempDir()
	if err := errors.Join(tinyelf.WriteWaiter(root+"/program", 0), os.Mkdir(root+"/proc", 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "QUARK_PROCFS_INSIDE="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := fmt.Sprintf("%q %q\n%q %q\n%q %q\n", "", "", root+"/program", root, "/program", "/")
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}

// readFromInside prints the values that a reader in a root returns for three processes: one outside
// that root, one in another mount namespace, and one in that root.
func readFromInside(root string) error {
	err := unix.Mount("/proc", root+"/proc", "", unix.MS_BIND|unix.MS_REC, "")
	var pids []int
	for _, how := range []*syscall.SysProcAttr{{}, {Unshareflags: unix.CLONE_NEWNS}, {Chroot: root}} {
		cmd := exec.Command(root + "/program")
		cmd.Dir, cmd.SysProcAttr = root, how
		if how.Chroot != "" {
			cmd.Path, cmd.Dir = "/program", "/"
		}
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err = errors.Join(err, inErr, outErr, cmd.Start()); err != nil {
			return err
		}
		defer cmd.Wait()
		defer in.Close()
		io.ReadFull(out, make([]byte, 1)) // waits until the program runs
		pids = append(pids, cmd.Process.Pid)
	}
	if err := errors.Join(unix.Chroot(root), unix.Chdir("/")); err != nil {
		return err
	}
	r, err := Open()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		var ev engine.RawEvent
		if _, err := r.Read(uint32(pid), Readable, &ev); err != nil {
			return err
		}
		fmt.Printf("%q %q\n", ev.Bytes(engine.FieldExe), ev.Bytes(engine.FieldCwd))
	}
	return r.Close()
}

// TestMain, if a test asks for it, executes a program in another root with a working directory
// outside of that root.
func TestMain(m *testing.M) {
	if root := os.Getenv("QUARK_PROCFS_CHROOT"); root != "" {
		err := errors.Join(unix.Chroot(root), syscall.Exec("/program", []string{"program"}, nil))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if root := os.Getenv("QUARK_PROCFS_INSIDE"); root != "" {
		if err := readFromInside(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestZombieAndVanished(t *testing.T) {
	r := open(t)
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	pid := uint32(cmd.Process.Pid)
	var ev engine.RawEvent
	for range retry.For(10 * time.Second) {
		st, _, err := r.Status(pid)
		if err != nil {
			t.Fatal(err)
		}
		if st.Zombie() {
			break
		}
	}
	st, err := r.Read(pid, Readable, &ev)
	if err != nil || !st.Zombie() {
		t.Fatalf("zombie: got status %+v, error %v", st, err)
	}
	if ev.Task.Known&gone != 0 || !ev.Task.Known.Has(engine.FieldPPID) || string(ev.Bytes(engine.FieldComm)) != "true" {
		t.Errorf("zombie: got known %v, comm %q", ev.Task.Known, ev.Bytes(engine.FieldComm))
	}
	cmd.Wait()
	ev.Reset()
	if _, err := r.Read(pid, Readable, &ev); !errors.Is(err, ErrVanished) || ev.Task.Known != 0 {
		t.Errorf("after wait: got error %v, known %v", err, ev.Task.Known)
	}
}

// If a process executes another image and exits during the read, the result never mixes the comm of
// one image with the arguments of the other.
func TestEndedWhileRead(t *testing.T) {
	r := open(t)
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Skip(err)
	}
	r.end()
	unix.Close(r.proc)
	r.proc, r.limit = procOf(t, string(text)), time.Minute
	dir := fmt.Sprintf("/proc/self/fd/%d/1", r.proc)
	for file, next := range map[string]string{"vanished": "", "zombie": "1 (y) Z 0" + strings.Repeat(" 0", 60)} {
		for name, b := range map[string][]byte{"stat": text, "next": []byte(next)} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		os.Remove(filepath.Join(dir, "cmdline"))
		if err := unix.Mkfifo(filepath.Join(dir, "cmdline"), 0o600); err != nil {
			t.Fatal(err)
		}
		// The FIFO opens when the reader has read stat.
		ends := exec.Command("sh", "-c", "{ cat next >stat; printf 'y\\0'; } >cmdline")
		ends.Dir = dir
		if err := ends.Start(); err != nil {
			t.Skip(err)
		}
		var ev engine.RawEvent
		if !r.Describe(1, &ev) {
			t.Fatal("the process did not start")
		}
		if err := ends.Wait(); err != nil {
			t.Fatal(err)
		}
		if ev.Task.Known&Replaced != 0 || !ev.Task.Known.Has(engine.FieldSID) {
			t.Errorf("%s: got known %v", file, ev.Task.Known)
		}
	}
}

// A process whose leader has exited before other threads is not a zombie.
func TestKindOfZombie(t *testing.T) {
	r := open(t)
	for threads, want := range map[string]engine.Kind{"1": engine.KindExit, "2": 0} {
		r.end()
		unix.Close(r.proc)
		r.proc = procOf(t, "1 (y) Z 0"+strings.Repeat(" 0", 15)+" "+threads+strings.Repeat(" 0", 40))
		var ev engine.RawEvent
		if !r.Describe(1, &ev) || ev.Kind != want {
			t.Errorf("%s threads: got %s, want %s", threads, ev.Kind, want)
		}
	}
}

// procOf opens a directory like /proc with one process, number 1, that has only the file stat.
func procOf(t *testing.T, stat string) int {
	t.Helper()
	proc := t.TempDir()
	dir := filepath.Join(proc, "1")
	fd, err := unix.Open(proc, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644)); err != nil {
		t.Fatal(err)
	}
	return fd
}

// A thread has no exit signal. Nor has a leader while an exec of another thread replaces it.
func TestExitSignalOfThread(t *testing.T) {
	r, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	onThread(func() {
		for id, want := range map[int]bool{os.Getpid(): true, unix.Gettid(): false} {
			var ev engine.RawEvent
			if _, err := r.Read(uint32(id), engine.FieldParentSignal.Set(), &ev); err != nil || ev.Task.Known.Has(engine.FieldParentSignal) != want {
				t.Errorf("thread %d of process %d: got %v, known %v", id, os.Getpid(), err, !want)
			}
		}
	})
}

// The login is read for all processes, or only for session leaders. A process has the login of the
// thread that set it.
func TestLogin(t *testing.T) {
	r := open(t)
	if !r.Readable().Has(engine.FieldLogin) {
		t.Skip("the kernel has no CONFIG_AUDIT")
	}
	onThread(func() {
		for _, uid := range []uint32{4242, engine.LoginUnset} {
			if err := os.WriteFile("/proc/thread-self/loginuid", fmt.Append(nil, uid), 0); err != nil {
				t.Log(err) // some kernels reject the write
				return
			}
			text, _ := os.ReadFile("/proc/thread-self/sessionid")
			session, err := strconv.ParseUint(string(text), 10, 32)
			if err != nil {
				t.Error(err)
				return
			}
			want := engine.Login{UID: uid, Session: uint32(session)}
			for _, r.Sparing = range []bool{false, true} {
				var ev engine.RawEvent
				ev.PID = uint32(unix.Gettid())
				if _, err := r.Read(ev.PID, Readable, &ev); err != nil || !r.Sparing && ev.Task.Login != want ||
					ev.Task.Known.Has(engine.FieldLogin) == r.Sparing {
					t.Errorf("process %d, leaders %v: got %+v, known %v; %v", uid, r.Sparing, ev.Task.Login, ev.Task.Known, err)
				}
			}
		}
	})
}

// With Sparing, the user, cgroup and time namespaces are read only if another namespace differs
// from the first process's.
func TestNamespacesSparingly(t *testing.T) {
	r := open(t)
	onThread(func() {
		read := func(sparing bool) (known engine.Fields) {
			var ev engine.RawEvent
			ev.PID, r.Sparing = uint32(unix.Gettid()), sparing
			if _, err := r.Read(ev.PID, engine.FieldsNS, &ev); err != nil {
				t.Error(err)
			}
			return ev.Task.Known
		}
		all := r.Readable() & engine.FieldsNS
		first, _ := os.Readlink("/proc/1/ns/mnt")
		if own, err := os.Readlink("/proc/thread-self/ns/mnt"); err == nil && own == first {
			if got := read(true); got != all&^sparingly {
				t.Errorf("got known %s, want %s", got, all)
			}
		}
		if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
			t.Log(err)
			return
		}
		for _, sparing := range []bool{false, true} {
			if got := read(sparing); got != all {
				t.Errorf("in another namespace, sparing %v: got known %s, want %s", sparing, got, all)
			}
		}
	})
}

func TestKernelThread(t *testing.T) {
	r := open(t)
	var ev engine.RawEvent
	st, err := r.Read(2, Readable, &ev)
	if err != nil || !st.Kthread {
		t.Skip("process 2 is no kernel thread here")
	}
	if ev.Task.Known.Has(engine.FieldExe) || ev.Task.Known.Has(engine.FieldArgs) {
		t.Errorf("kernel thread: got known %v", ev.Task.Known)
	}
	if string(ev.Bytes(engine.FieldComm)) != "kthreadd" {
		t.Errorf("got comm %q", ev.Bytes(engine.FieldComm))
	}
}

// For some kernel threads /proc shows a longer name than the comm in the kernel.
func TestLongNamesOfKernelThreads(t *testing.T) {
	long := 0
	if err := open(t).Scan(func(ev *engine.RawEvent) error {
		shown, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", ev.PID))
		shown = bytes.TrimSuffix(shown, []byte("\n"))
		got := ev.Bytes(engine.FieldComm)
		if len(got) > 15 {
			t.Errorf("got comm %q", got)
		}
		if err == nil && len(shown) > 15 {
			if long++; len(got) == 0 || !bytes.HasPrefix(shown, got) {
				t.Errorf("got comm %q, /proc shows %q", got, shown)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if long == 0 {
		t.Skip("no kernel thread has a long name here")
	}
}

func TestForkNoExec(t *testing.T) {
	r := open(t)
	// The subshell runs the same image as its parent.
	cmd := exec.Command("sh", "-c", "exec 3<&0; (read x <&3; :) & echo $!; wait")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { in.Close(); io.Copy(io.Discard, out); cmd.Wait() }()
	var pid uint32
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[uint32]bool{pid: true, uint32(cmd.Process.Pid): false} {
		if st, _, err := r.Status(p); err != nil || st.ForkNoExec != want {
			t.Errorf("process %d: got %+v, %v; want ForkNoExec %v", p, st, err, want)
		}
	}
}

func TestLongCmdline(t *testing.T) {
	r := open(t)
	long := strings.Repeat("x", 3*MaxCmdline)
	cmd := start(t, "sh", "-c", "read x", "sh", long)
	var ev engine.RawEvent
	if _, err := r.Read(uint32(cmd.Process.Pid), Readable, &ev); err != nil {
		t.Fatal(err)
	}
	want := []byte("sh\x00-c\x00read x\x00sh\x00" + long)[:MaxCmdline]
	if !bytes.Equal(ev.Bytes(engine.FieldArgs), want) || ev.Task.Truncated != engine.FieldArgs.Set() {
		t.Errorf("got %d bytes, truncated %v", len(ev.Bytes(engine.FieldArgs)), ev.Task.Truncated)
	}
}

// TestDirectoryOfReusedPID shows that one descriptor of /proc/PID never refers to a later process
// with the same pid.
func TestDirectoryIsOfTheProcess(t *testing.T) {
	r := open(t)
	for try := 0; try < 20; try++ {
		cmd := start(t, "cat")
		pid := cmd.Process.Pid
		dir, errno := openat(r.proc, r.name(uint32(pid), ""), unix.O_PATH|unix.O_DIRECTORY)
		if errno != 0 {
			t.Fatal(errno)
		}
		defer closeFD(dir)
		cmd.Process.Kill()
		cmd.Wait()
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skip(err)
		}
		next := start(t, "cat")
		if next.Process.Pid != pid {
			continue // another process got the pid first
		}
		var ev engine.RawEvent
		if _, err := r.Read(uint32(pid), Readable, &ev); err != nil {
			t.Errorf("new process: got error %v", err)
		}
		ev.Reset()
		if _, err := r.readAll(dir, 1, Readable, &ev); !errors.Is(err, ErrVanished) || ev.Task.Known != 0 {
			t.Errorf("directory of the old process: got error %v, known %v", err, ev.Task.Known)
		}
		return
	}
	t.Skip("the kernel did not reuse the pid")
}

func TestReadAllocatesNothing(t *testing.T) {
	r := open(t)
	// The event keeps no buffer for large data such as a whole environment.
	r.ReadEnviron(func(ev *engine.RawEvent, all []byte, cut bool) {
		ev.Set(engine.FieldEnviron, all[:min(len(all), 256)])
	})
	pid := uint32(os.Getpid())
	var ev engine.RawEvent
	if n := testing.AllocsPerRun(100, func() {
		ev.Reset()
		if _, err := r.Read(pid, Readable, &ev); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// A scan returns each process once, in order, with the same values as Read, for any number of
// goroutines.
func TestScanOfMany(t *testing.T) {
	const many = 3 * maxReaders * scanBatch
	quiet := map[uint32]bool{}
	for range many {
		p, err := barefork.Start(new(barefork.Script).Stop(), barefork.Options{Share: true})
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(p.Kill)
		quiet[uint32(p.PID)] = true
	}
	r, last, found := open(t), uint32(0), 0
	if err := open(t).Scan(func(ev *engine.RawEvent) error {
		if ev.PID <= last || ev.Time == 0 {
			t.Errorf("got pid %d after %d, at index %d", ev.PID, last, ev.Time)
		}
		last = ev.PID
		if !quiet[ev.PID] {
			return nil
		}
		found++
		var one engine.RawEvent
		if _, err := r.Read(ev.PID, Readable, &one); err != nil {
			t.Fatal(err)
		}
		if one.Task != ev.Task {
			t.Errorf("got %+v, want %+v", ev.Task, one.Task)
		}
		for f := engine.FieldComm; f <= engine.FieldCgroup; f++ {
			if !bytes.Equal(one.Bytes(f), ev.Bytes(f)) {
				t.Errorf("%v: got %q, want %q", f, ev.Bytes(f), one.Bytes(f))
			}
		}
		return nil
	}); err != nil || found != many {
		t.Errorf("got %d of %d processes, error %v", found, many, err)
	}
}

func TestCloseTwice(t *testing.T) {
	r := open(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A process that hides its arguments is not taken for a process in an execve.
func TestHiddenCmdline(t *testing.T) {
	const at, noFile = 1 << 22, 1<<64 - 1<<32 // any address; no executable
	// struct prctl_mm_map with empty arguments. Kernels before 5.2 require the heap behind the
	// data.
	layout := []any{at, at + 1, at, at + 1, at + 2, at + 2, at - 16, at, at, at, at, nil, uint64(noFile)}
	s := new(barefork.Script).Call("prctl", unix.SYS_PRCTL, unix.PR_SET_MM, unix.PR_SET_MM_MAP, layout, 8*len(layout), 0)
	p, err := barefork.Start(s.Stop(), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	defer unix.Wait4(p.PID, nil, 0, nil)
	defer unix.Kill(p.PID, unix.SIGKILL)
	r := open(t)
	for range retry.For(time.Second) {
		if st, _, err := r.Status(uint32(p.PID)); err != nil || st.State == 'S' {
			break
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); err != nil || len(b) > 0 {
		t.Skip("this kernel does not let the process hide its arguments: ", err)
	}
	var ev engine.RawEvent
	if _, err := r.Read(uint32(p.PID), Readable, &ev); err != nil || ev.Task.Known != Readable&^engine.FieldArgs.Set() {
		t.Errorf("got unknown fields %v, error %v", Readable&^ev.Task.Known, err)
	}
}

// During an execve, stat can show the new code with the temporary stack. Both the arguments and the
// stack are then at one address. The reader must not take this for an image, as the complete image
// would look like another one.
func TestUnfinishedImage(t *testing.T) {
	for _, c := range []struct {
		code, stack, args uint64
		whole             bool
	}{{4096, 1 << 40, 1<<40 + 64, true}, {4096, 1 << 40, 1 << 40, false}, {0, 1 << 40, 1<<40 + 64, false}, {4096, 0, 0, false}} {
		if st := status(&proctext.Stat{Code: c.code, Stack: c.stack, Args: c.args}); (st.Memory != 0) != c.whole {
			t.Errorf("%+v: got memory %x, want 0", c, st.Memory)
		}
	}
}

// Memory is the same number while an image runs, and another number for the next image.
func TestMemory(t *testing.T) {
	r := open(t)
	const script = `read x; exec /bin/sh -c "$0" "$0" $((9-$1))`
	cmd := exec.Command("/bin/sh", "-c", script, script, "1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	memory := func(argument string) uint64 {
		for range retry.For(10 * time.Second) {
			var ev engine.RawEvent
			st, err := r.Read(uint32(cmd.Process.Pid), Readable, &ev)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.HasSuffix(ev.Bytes(engine.FieldArgs), []byte("\x00"+argument+"\x00")) {
				return st.Memory
			}
		}
		t.Fatalf("the process never had the argument %s", argument)
		return 0
	}
	seen := map[uint64]bool{0: true}
	for _, argument := range []string{"1", "8", "1", "8"} {
		one, again := memory(argument), memory(argument)
		if one != again || seen[one] {
			t.Errorf("memory of one image: got %#x and %#x, earlier images had %#x", one, again, slices.Collect(maps.Keys(seen)))
		}
		seen[one] = true
		fmt.Fprintln(in)
	}
}
