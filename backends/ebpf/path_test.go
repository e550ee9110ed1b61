package ebpf

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// execDetached executes a program in a directory on a detached mount.
func execDetached(write func(path string, code uint8) error) {
	dir := os.Args[1]
	conform.Try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	conform.Try("make mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	conform.Try("mount", unix.Mount("tmp", dir, "tmpfs", 0, ""))
	conform.Try("chdir", unix.Chdir(dir))
	conform.Try("write program", write("program", 0))
	conform.Try("unmount", unix.Unmount(dir, unix.MNT_DETACH))
	conform.Try("exec", syscall.Exec("./program", []string{"program"}, nil))
}

// A path on a detached mount cannot be reached, so it is unknown.
func TestDetachedMount(t *testing.T) {
	s := open(t, Options{})
	c := conform.Child("detached", t.TempDir())
	evs := conform.Run(t, s, c)
	// The child process reports the first EXEC.
	execs := evs.Of(c.Process.Pid, engine.KindExec)
	if len(execs) != 2 {
		t.Fatal(evs.Kinds(c.Process.Pid))
	}
	for _, f := range []engine.Field{engine.FieldCwd, engine.FieldExe} {
		if execs[0].Bytes(f) == nil || execs[1].Bytes(f) != nil {
			t.Errorf("%v: got %q, then %q on the detached mount; want a path, then none", f, execs[0].Bytes(f), execs[1].Bytes(f))
		}
	}
}

// execFromMoved executes a program in its working directory while another process renames the
// directory.
func execFromMoved() {
	conform.Try("chdir", unix.Chdir(os.Args[1]))
	n, err := strconv.Atoi(os.Args[2])
	conform.Try("count", err)
	for range n {
		c := &exec.Cmd{Path: "./program", Args: []string{"program"}}
		conform.Try("run", c.Run())
	}
}

// A path never combines names from before and after a rename of a directory.
func TestRenamedDirectory(t *testing.T) {
	s := open(t, Options{})
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a", "x"), filepath.Join(dir, "b", "y")}
	for _, sub := range []string{paths[0], filepath.Dir(paths[1])} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := tinyelf.Write(filepath.Join(paths[0], "program"), 0); err != nil {
		t.Fatal(err)
	}
	moving, err := os.OpenFile(paths[0], unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer moving.Close()
	var stop atomic.Bool
	renames := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			unix.Rename(paths[n%2], paths[(n+1)%2])
		}
		renames <- n
	}()
	n := 1500
	if testing.Short() {
		n = 150 // an emulated CPU needs half a minute for 150 rounds
	}
	c := conform.Child("from-moved", "/proc/self/fd/3", strconv.Itoa(n))
	c.ExtraFiles = []*os.File{moving}
	evs := conform.Run(t, s, c)
	stop.Store(true)
	wrong, right, unknown := 0, 0, 0
	for _, ev := range evs {
		if ev.PID == uint32(c.Process.Pid) || ev.Task.PPID != uint32(c.Process.Pid) {
			continue
		}
		for _, f := range []engine.Field{engine.FieldCwd, engine.FieldExe} {
			switch path := strings.TrimSuffix(string(ev.Bytes(f)), "/program"); {
			case ev.Kind == engine.KindFork && f == engine.FieldExe || ev.Kind == engine.KindExit:
			case path == "":
				unknown++
			case slices.Contains(paths, path):
				right++
			default:
				wrong++
			}
		}
	}
	t.Logf("%d renames; %d correct paths, %d unknown", <-renames, right, unknown)
	if wrong > 0 || right == 0 || unknown > right/10 {
		t.Errorf("got %d wrong, %d correct and %d unknown paths", wrong, right, unknown)
	}
}

// An exec that fails after the kernel has released the old image is no EXEC. It increments the
// image number.
func TestFailedExec(t *testing.T) {
	s := openShared(t, source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	path := filepath.Join(t.TempDir(), "program")
	if err := tinyelf.Write(path, 0); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const address = 64 + 16 // p_vaddr of the first segment
	binary.LittleEndian.PutUint64(program[address:], 0x7fff_ffff_ffff_0000)
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path)
	evs := conform.Run(t, s, c)
	if n := len(evs.Of(c.Process.Pid, engine.KindExec)); n > 0 {
		t.Fatalf("got %d EXECs, want 0", n)
	}
	if n := len(evs.Of(c.Process.Pid, engine.KindExecFailed)); n > 0 {
		t.Errorf("got %d EXEC_FAILED, want 0", n)
	}
	fork, exit := evs.One(t, c.Process.Pid, engine.KindFork), evs.One(t, c.Process.Pid, engine.KindExit)
	if fork.Image == 0 || exit.Image != fork.Image+1 {
		t.Errorf("got image %d at the FORK and %d at the EXIT", fork.Image, exit.Image)
	}
}

// failExecs makes two execs that fail. Some kernels hide them from the programs at the entry of the
// call: the page with the path of one must be read from a file, a seccomp filter denies the other.
func failExecs() {
	runtime.LockOSThread()
	f, err := os.Open(os.Args[1])
	conform.Try("open", err)
	paths, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
	conform.Try("map", err)
	path, none := uintptr(unsafe.Pointer(&paths[0])), new([1]uintptr)
	argv := uintptr(unsafe.Pointer(none))
	unix.RawSyscall(unix.SYS_EXECVE, path, argv, argv)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_EXECVEAT, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSPC)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		conform.Try("filter", errno)
	}
	unix.RawSyscall6(unix.SYS_EXECVEAT, 77, path+1, argv, argv, 0, 0)
}

// A failed exec is reported even if no program sees the entry of the call, if the kernel shows the
// task's registers.
func TestFailedExecWithoutBeginning(t *testing.T) {
	s := openShared(t, source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	if via := s.Capabilities().Kinds[engine.KindExecFailed].Via; !strings.Contains(via, "/sys_exit_") {
		t.Skip(via)
	}
	file := filepath.Join(t.TempDir(), "paths")
	if err := os.WriteFile(file, []byte("/no/program\x00"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := conform.Child("fails-execs", file)
	failed := conform.Run(t, s, c).Of(c.Process.Pid, engine.KindExecFailed)
	var got []string
	for _, ev := range failed {
		got = append(got, fmt.Sprintf("%d %s", ev.Errno, ev.Bytes(engine.FieldExe)))
	}
	want := []string{"2 /no/program", "28 /dev/fd/77/no/program"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
