package ebpf

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// detached executes a program from a directory on a mount that has been taken away.
func detached(write func(path string, code uint8) error) {
	dir := os.Args[1]
	conform.Try("unshare", unix.Unshare(unix.CLONE_NEWNS))
	conform.Try("make mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	conform.Try("mount", unix.Mount("tmp", dir, "tmpfs", 0, ""))
	conform.Try("chdir", unix.Chdir(dir))
	conform.Try("write program", write("program", 0))
	conform.Try("unmount", unix.Unmount(dir, unix.MNT_DETACH))
	conform.Try("exec", syscall.Exec("./program", []string{"program"}, nil))
}

// A path on a detached mount is out of reach, and so unknown.
func TestDetachedMount(t *testing.T) {
	s := open(t, Options{})
	c := conform.Child("detached", t.TempDir())
	evs := conform.Run(t, s, c)
	// The first EXEC is that of the child itself.
	execs := evs.Of(c.Process.Pid, engine.KindExec)
	if len(execs) != 2 {
		t.Fatal(evs.Kinds(c.Process.Pid))
	}
	for _, f := range []engine.Field{engine.FieldCwd, engine.FieldFilename} {
		if execs[0].Bytes(f) == nil || execs[1].Bytes(f) != nil {
			t.Errorf("%v is %q, then on the detached mount %q", f, execs[0].Bytes(f), execs[1].Bytes(f))
		}
	}
}

// fromMoved executes a program of its working directory, which others rename.
func fromMoved() {
	conform.Try("chdir", unix.Chdir(os.Args[1]))
	n, err := strconv.Atoi(os.Args[2])
	conform.Try("count", err)
	for range n {
		c := &exec.Cmd{Path: "./program", Args: []string{"program"}}
		conform.Try("run", c.Run())
	}
}

// A path is never put together from names before and after a rename.
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
		n = 150 // an emulated processor takes half a minute for all
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
		for _, f := range []engine.Field{engine.FieldCwd, engine.FieldFilename} {
			switch path := strings.TrimSuffix(string(ev.Bytes(f)), "/program"); {
			case ev.Kind == engine.KindFork && f == engine.FieldFilename || ev.Kind == engine.KindExit:
			case path == "":
				unknown++
			case slices.Contains(paths, path):
				right++
			default:
				wrong++
			}
		}
	}
	t.Logf("%d renames; %d paths right, %d unknown", <-renames, right, unknown)
	if wrong > 0 || right == 0 || unknown > right/10 {
		t.Errorf("%d paths never existed, %d did, %d are unknown", wrong, right, unknown)
	}
}

// An exec that fails when the old image is gone makes no EXEC, but a new number of the image.
func TestFailedExec(t *testing.T) {
	s := open(t, Options{})
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
		t.Fatalf("%d EXECs", n)
	}
	fork, exit := evs.One(t, c.Process.Pid, engine.KindFork), evs.One(t, c.Process.Pid, engine.KindExit)
	if fork.Image == 0 || exit.Image != fork.Image+1 {
		t.Errorf("image %d at the FORK, %d at the EXIT", fork.Image, exit.Image)
	}
}
