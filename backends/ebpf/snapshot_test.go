package ebpf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/thorough"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// openSnapshot returns a source with the iterator that reads processes, and a reader of /proc.
func openSnapshot(t testing.TB) (*Source, *procfs.Reader) {
	t.Helper()
	s := open(t, Options{})
	if s.snapshot == nil {
		t.Skip("the kernel has no iterators with bpf_loop (5.17), or uses cgroup v1")
	}
	r, err := procfs.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return s, r
}

type byPID map[uint32]*engine.RawEvent

func (all byPID) add(ev *engine.RawEvent) error {
	c := &engine.RawEvent{PID: ev.PID, Time: ev.Time, Task: ev.Task}
	for f := range engine.Field(engine.NumFields) {
		if _, numbers := ev.Task.NumberText(f); !numbers && procfs.Readable.Has(f) && ev.Task.Known.Has(f) {
			c.Set(f, ev.Bytes(f))
		}
	}
	all[ev.PID] = c
	return nil
}

func valueOf(ev *engine.RawEvent, f engine.Field) string {
	if text, ok := ev.Task.NumberText(f); ok {
		return text
	}
	return string(ev.Bytes(f))
}

func textOf(ev *engine.RawEvent, f engine.Field) string {
	return fmt.Sprintf("%q cut=%v", valueOf(ev, f), ev.Task.Truncated.Has(f))
}

// differences returns the known fields of one that are unknown or different in other.
func differences(one, other *engine.RawEvent) (fields []engine.Field) {
	for f := range engine.Field(engine.NumFields) {
		if one.Task.Known.Has(f) && (!other.Task.Known.Has(f) || textOf(one, f) != textOf(other, f)) {
			fields = append(fields, f)
		}
	}
	return fields
}

// startWaiter starts a program that runs until the end of the test.
func startWaiter(t *testing.T, file string, c *exec.Cmd) int {
	t.Helper()
	if err := tinyelf.WriteWaiter(file, 0); err != nil {
		t.Fatal(err)
	}
	if c.Path == "" {
		c.Path = file
	}
	if c.Args == nil {
		c.Args = []string{filepath.Base(file), "one", ""}
	}
	return startReady(t, c)
}

// startReady starts a command and waits until the command prints a line.
func startReady(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	conform.Start(t, c)
	return c.Process.Pid
}

// startScript starts a script and waits until it reaches its last call.
func startScript(t *testing.T, s *barefork.Script) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := barefork.Start(s.Notify(int(w.Fd())).Stop(), barefork.Options{})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return p.PID
}

// argvEnd returns the address of the last byte of this process's arguments.
func argvEnd(t *testing.T) uintptr {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))
	var end uintptr
	fmt.Sscan(words[49-2], &end) // arg_end is the 49th
	return end - 1
}

// The iterator returns the same values as /proc for each process, or leaves the process to /proc.
func TestSnapshotIsThatOfProc(t *testing.T) {
	s, r := openSnapshot(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mkdir := func(name string) string {
		if err := os.MkdirAll(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	remove := func(name string) {
		if err := os.Remove(at(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		os.Chmod(d, 0o755) // for other users
	}
	long := strings.Repeat("x", 5000)
	described, left := map[string]int{}, map[string]int{}

	described["plain"] = startWaiter(t, at("plain"), &exec.Cmd{})
	described["named deleted"] = startWaiter(t, at("named (deleted)"), &exec.Cmd{})
	described["removed"] = startWaiter(t, at("removed"), &exec.Cmd{Dir: mkdir("gone")})
	remove("removed")
	remove("gone")
	described["long"] = startWaiter(t, at("long"), &exec.Cmd{Args: []string{long, long, long, long}})
	left["cut"] = startWaiter(t, at("cut"), &exec.Cmd{Args: []string{long, long, long, long, long}})
	described["deep"] = startWaiter(t, at("deep"), &exec.Cmd{Dir: mkdir(strings.Repeat("d/", 60))})
	described["ids"] = startWaiter(t, at("ids"), &exec.Cmd{SysProcAttr: &syscall.SysProcAttr{
		Setsid: true, Credential: &syscall.Credential{Uid: 1234, Gid: 567}}})
	described["chroot"] = startWaiter(t, filepath.Join(mkdir("jail"), "chroot"), &exec.Cmd{Path: "/chroot", Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Chroot: at("jail")}})
	described["namespaces"] = startWaiter(t, at("namespaces"), &exec.Cmd{SysProcAttr: &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET}})
	described["forked"] = startScript(t, new(barefork.Script))
	described["with threads"] = startScript(t, new(barefork.Script).Thread(new(barefork.Script).Stop()))
	left["unshared"] = startScript(t, new(barefork.Script).Call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS))
	left["chroot alone"] = startScript(t, new(barefork.Script).Call("chroot", unix.SYS_CHROOT, at("jail")))
	left["detached"] = startReady(t, conform.Child("wait-detached", mkdir("mounted")))
	title, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	described["title"] = startScript(t, new(barefork.Script).Call("read", unix.SYS_READ, int(title.Fd()), argvEnd(t), 1))
	left["leader ended"] = leaderEnded(t)
	left["zombie"] = zombie(t)
	if fd, err := unix.MemfdCreate("anonymous", 0); err == nil {
		described["memfd's maker"] = os.Getpid()
		f := os.NewFile(uintptr(fd), "memfd")
		left["memfd"] = startWaiter(t, fmt.Sprintf("/proc/self/fd/%d", fd), &exec.Cmd{Args: []string{"memfd"}})
		f.Close()
	}
	if pid := inCgroup(t); pid != 0 {
		described["cgroup"] = pid
	}

	before, shown, after := byPID{}, byPID{}, byPID{}
	if err := r.Scan(before.add); err != nil {
		t.Fatal(err)
	}
	ever := map[uint32]bool{} // processes that the iterator read with certainty at least once
	for range 20 {
		err := s.readTasks(r, func(ev *engine.RawEvent) error {
			ever[ev.PID] = ever[ev.PID] || ev.Task.StartUnit == 1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Snapshot(r, shown.add); err != nil {
		t.Fatal(err)
	}
	if err := r.Scan(after.add); err != nil {
		t.Fatal(err)
	}
	compared, certain := 0, 0
	for pid, ev := range shown {
		if b, a := before[pid], after[pid]; b == nil || a == nil || len(differences(b, a)) > 0 || len(differences(a, b)) > 0 {
			continue // the values changed meanwhile
		}
		for _, f := range differences(before[pid], ev) {
			t.Errorf("process %d: %v: got %s, /proc has %s", pid, f, textOf(ev, f), textOf(before[pid], f))
		}
		if compared++; ev.Task.StartUnit == 1 {
			certain++
		}
	}
	t.Logf("%d processes match /proc, %d of them read by the eBPF iterator", compared, certain)
	for pid := range before {
		// Some kernels hide pid 1 from the iterator.
		if after[pid] != nil && shown[pid] == nil && pid != 1 {
			t.Errorf("the iterator did not return process %d", pid)
		}
	}
	for name, pid := range described {
		if !ever[uint32(pid)] {
			t.Errorf("%s: the iterator never read process %d with certainty", name, pid)
		}
	}
	for name, pid := range left {
		if ever[uint32(pid)] || shown[uint32(pid)] == nil {
			t.Errorf("%s: the iterator read process %d with certainty, or /proc does not have it", name, pid)
		}
	}
	for name, want := range map[string]string{"removed": at("removed"), "named deleted": at("named (deleted)"), "chroot": "/chroot"} {
		if got := string(shown[uint32(described[name])].Bytes(engine.FieldExe)); got != want {
			t.Errorf("%s: got executable %q, want %q", name, got, want)
		}
	}
}

func leaderEnded(t *testing.T) int {
	p, err := barefork.Start(new(barefork.Script).Thread(new(barefork.Script).Stop()).ExitThread(0), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	awaitZombie(t, p.PID)
	return p.PID
}

func zombie(t *testing.T) int {
	p, err := barefork.Start(new(barefork.Script), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	awaitZombie(t, p.PID)
	return p.PID
}

func awaitZombie(t *testing.T, pid int) {
	for range retry.For(10 * time.Second) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(b), ") Z ") {
			return
		}
	}
	t.Fatal("the child did not become a zombie")
}

// inCgroup returns a process in a new cgroup, or 0 if the test cannot make a cgroup.
func inCgroup(t *testing.T) int {
	dir, err := os.MkdirTemp(cgroupRoot, "quark-snapshot")
	if err != nil {
		return 0
	}
	t.Cleanup(func() {
		for range retry.For(10 * time.Second) {
			if os.Remove(dir) == nil {
				break
			}
		}
	})
	pid := startScript(t, new(barefork.Script))
	// Do not create the file: without cgroup v2 the directory is an ordinary one.
	procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return 0
	}
	defer procs.Close()
	if _, err := procs.Write(fmt.Append(nil, pid)); err != nil {
		return 0
	}
	return pid
}

const cgroupRoot = "/sys/fs/cgroup"

// repeatAction repeats one action until it is killed. The group leader acts, because the test
// checks its values.
func repeatAction() {
	dir, kind := os.Args[1], os.Args[2]
	call := func(number uintptr, args ...uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	}
	text := func(s string) uintptr {
		p, _ := unix.BytePtrFromString(s)
		return addressOf(p)
	}
	// The process is killed when the test exits. A child inherits the limit, but not this
	// signal.
	conform.Try("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	conform.Try("limit", unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 60, Max: 60}))
	if kind == "ipc" {
		conform.Try("unshare", unix.Unshare(unix.CLONE_NEWIPC|unix.CLONE_NEWNET))
	}
	fmt.Print("x")
	switch kind {
	case "exec":
		execForever(dir)
	case "fork":
		forkForever()
	case "gids":
		for i := uintptr(0); ; i++ {
			call(unix.SYS_SETRESGID, 1+i%2, 1+i%2, 1+i%2)
			if i%16 == 0 { // pause: tests of other packages monitor this machine too
				// A change of ids clears the parent-death signal.
				call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
				time.Sleep(time.Millisecond)
			}
		}
	case "comm":
		names := []uintptr{text(strings.Repeat("a", 15)), text(strings.Repeat("b", 15))}
		for i := 0; ; i++ {
			call(unix.SYS_PRCTL, unix.PR_SET_NAME, names[i%2])
			if i%16 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	case "chdir":
		dirs := []uintptr{text(dir), text(otherMount)}
		for i := 0; ; i++ {
			call(unix.SYS_CHDIR, dirs[i%2])
		}
	case "rename":
		dirs := []uintptr{text(path.Join(dir, "a/b/c")), text(path.Join(dir, "d/e"))}
		call(unix.SYS_CHDIR, dirs[0])
		for i := 0; ; i++ {
			call(unix.SYS_RENAMEAT2, fdArg(unix.AT_FDCWD), dirs[i%2], fdArg(unix.AT_FDCWD), dirs[(i+1)%2])
		}
	case "chroot":
		root, err := os.Open("/")
		conform.Try("open", err)
		here, dot := text(dir), text(".")
		for {
			call(unix.SYS_CHDIR, here)
			call(unix.SYS_CHROOT, here)
			call(unix.SYS_FCHDIR, root.Fd())
			call(unix.SYS_CHROOT, dot)
		}
	case "ipc", "uts":
		for {
			call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS)
		}
	case "fs":
		for {
			call(unix.SYS_UNSHARE, unix.CLONE_FS)
			call(unix.SYS_CHDIR, text(dir))
		}
	}
}

// execForever executes programs with different names. The comm and the argument of each equal its
// name.
func execForever(dir string) {
	for {
		s := new(barefork.Script)
		for i := range 26 {
			name := strings.Repeat(string(rune('a'+i)), 12)
			file := path.Join(dir, name)
			s.Exec(file, []string{name}, nil).Resume(func(elf []byte) error {
				os.Remove(file)
				return os.WriteFile(file, elf, 0o755)
			})
		}
		p, err := barefork.Start(s, barefork.Options{})
		conform.Try("start", err)
		unix.Wait4(p.PID, nil, 0, nil)
		p.Free()
	}
}

// forkForever makes child processes that exit at once, in a new cgroup.
func forkForever() {
	for {
		p, err := barefork.Start(new(barefork.Script), barefork.Options{Share: true})
		conform.Try("start", err)
		unix.Wait4(p.PID, nil, 0, nil)
		p.Free()
	}
}

const otherMount = "/proc/sys/kernel"

// The iterator never returns values from before and after a change together, nor values of another
// process, even for processes that change constantly.
func TestSnapshotOfRestlessProcesses(t *testing.T) {
	s, r := openSnapshot(t)
	var self engine.RawEvent
	if !r.Describe(uint32(os.Getpid()), &self) {
		t.Fatal("got no process from the iterator")
	}
	// The time is short, because this test slows the tests of other packages.
	each, most := 1, time.Duration(thorough.Rounds(1, 3))*time.Second
	all := map[uint32]*attacker{}
	for _, kind := range []string{"exec", "fork", "gids", "comm", "chdir", "rename", "chroot", "ipc", "uts", "fs"} {
		for range each {
			a := &attacker{kind: kind, dir: t.TempDir()}
			if err := errors.Join(os.MkdirAll(path.Join(a.dir, "a/b/c"), 0o755), os.Mkdir(path.Join(a.dir, "d"), 0o755)); err != nil {
				t.Fatal(err)
			}
			pid := startReady(t, conform.Child("restless", a.dir, kind))
			r.Describe(uint32(pid), &a.first)
			all[uint32(pid)] = a
			// A low priority leaves CPU time for the reader.
			unix.Setpriority(unix.PRIO_PROCESS, pid, 19)
		}
	}
	rounds, seen, left := 0, map[string]int{}, map[string]int{}
	for began := time.Now(); time.Since(began) < most && !t.Failed(); rounds++ {
		err := s.readTasks(r, func(ev *engine.RawEvent) error {
			a, child := all[ev.PID], false
			if a == nil && ev.Task.Known.Has(engine.FieldPPID) {
				a, child = all[ev.Task.PPID], true
			}
			if a == nil {
				return nil
			}
			if seen[a.kind]++; ev.Task.StartUnit != 1 {
				left[a.kind]++
			}
			a.check(t, ev, &self, child)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds; processes seen: %v, left to /proc: %v", rounds, seen, left)
}

// attacker is a process that runs repeatAction.
type attacker struct {
	kind, dir string
	first     engine.RawEvent
}

// check checks the values of an attacker or of its child. self is the attacker.
func (a *attacker) check(t *testing.T, ev, self *engine.RawEvent, child bool) {
	changing := engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID | 1<<engine.FieldComm | 1<<engine.FieldExe |
		1<<engine.FieldArgs | 1<<engine.FieldCwd | 1<<engine.FieldParentSignal | 1<<engine.FieldPIDNS)
	switch a.kind {
	case "exec":
		changing |= 1 << engine.FieldExeFile // the test rewrites its files all the time
		if ev.Task.Known.Has(engine.FieldExeFile) && ev.Task.ExeFile.Mode != 0o100755 {
			t.Errorf("%s: got executable %v", a.kind, ev.Task.ExeFile)
		}
	case "gids":
		changing |= 1<<engine.FieldGIDs | 1<<engine.FieldSGID
		if c := ev.Task.Cred; ev.Task.Known.Has(engine.FieldGIDs) && ev.Task.Known.Has(engine.FieldSGID) && (c.GID != c.EGID || c.GID != c.SGID || c.GID > 2) {
			t.Errorf("%s: got mixed group ids %+v", a.kind, c)
		}
	case "uts":
		changing |= 1 << engine.FieldUTSNS
	case "ipc":
		changing |= 1 << engine.FieldUTSNS
		self = &a.first
	}
	must := func(f engine.Field, of ...string) {
		if got := valueOf(ev, f); ev.Task.Known.Has(f) && !slices.Contains(of, got) {
			t.Errorf("%s, child: %v, start %d in %d ns: %v: got %q, want one of %q", a.kind, child, ev.Task.Start, ev.Task.StartUnit, f, got, of)
		}
	}
	must(engine.FieldPIDNS, fmt.Sprint(self.Task.NS.PID, " ", ev.PID))
	for f := range engine.Field(engine.NumFields) {
		if !changing.Has(f) && self.Task.Known.Has(f) {
			must(f, valueOf(self, f))
		}
	}
	file, cwd := valueOf(self, engine.FieldExe), valueOf(self, engine.FieldCwd)
	switch a.kind {
	case "exec":
		must(engine.FieldCwd, cwd)
		name, whole := valueOf(ev, engine.FieldComm), engine.Fields(1<<engine.FieldComm|1<<engine.FieldExe|1<<engine.FieldArgs)
		if now := valueOf(ev, engine.FieldExe); child && ev.Task.Known&whole == whole && now != file {
			must(engine.FieldExe, path.Join(a.dir, name))
			must(engine.FieldArgs, name+"\x00")
		}
		return
	case "chdir", "fs":
		must(engine.FieldCwd, cwd, a.dir, otherMount)
	case "rename":
		must(engine.FieldCwd, cwd, path.Join(a.dir, "a/b/c"), path.Join(a.dir, "d/e"))
	case "chroot": // the executable is outside of the new root
		must(engine.FieldCwd, cwd, a.dir, "/")
	case "comm":
		must(engine.FieldComm, strings.Repeat("a", 15), strings.Repeat("b", 15), valueOf(self, engine.FieldComm), "exe")
		must(engine.FieldCwd, cwd)
	default:
		must(engine.FieldCwd, cwd)
	}
	must(engine.FieldExe, file)
}

func addressOf(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// fdArg returns a descriptor as an argument.
func fdArg(fd int) uintptr { return uintptr(fd) }
