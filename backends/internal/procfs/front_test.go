package procfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/retry"
)

// blockingReader returns a Reader of a directory like /proc. Until release is called, reads of the
// cmdline of process 1 block, as for a process with a locked address space: the file is a FIFO
// without a writer.
func blockingReader(t *testing.T) (r *Reader, release func() bool) {
	t.Helper()
	r = open(t)
	r.end()
	unix.Close(r.proc)
	root := t.TempDir()
	add := func(pid, name, text string) {
		dir := filepath.Join(root, pid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range []string{"1", "2"} {
		add(pid, "stat", pid+" (x) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 2 2 3"+" 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 4 0 0 0 0")
	}
	add("2", "cmdline", "two\x00")
	fifo := filepath.Join(root, "1", "cmdline")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.proc = fd
	return r, func() bool {
		fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return false // no read is blocked
		}
		unix.Write(fd, []byte("one\x00"))
		unix.Close(fd)
		return true
	}
}

// If the memory of a process cannot be read, its arguments are unknown. Only one read waits for the
// deadline; reads of other processes continue. The process is read again once its address space is
// unlocked.
func TestBlockedMemory(t *testing.T) {
	r, release := blockingReader(t)
	r.limit = r.patience // the time limit of a FIFO, not of a process
	cmdline := func(pid uint32) (string, bool) {
		var ev engine.RawEvent
		ev.PID = pid
		if _, err := r.Read(pid, engine.FieldArgs.Set(), &ev); err != nil {
			t.Fatal(err)
		}
		return string(ev.Bytes(engine.FieldArgs)), ev.Task.Known.Has(engine.FieldArgs)
	}
	for range 100 { // 100 deadlines would take 10 s
		if text, known := cmdline(1); known {
			t.Fatalf("got arguments %q of a blocked process", text)
		}
		if text, _ := cmdline(2); text != "two\x00" {
			t.Fatalf("arguments of another process: got %q", text)
		}
	}
	if n := r.Blocked(); n != 1 {
		t.Errorf("got %d blocked processes, want 1", n)
	}
	other := r.fork() // all readers share the list of blocked processes
	defer other.release()
	other.blocked = new(blocked)
	if r.ShareBlocked(other); other.Blocked() != 1 || other.extent(1) != withoutMemory {
		t.Error("another reader does not know the blocked process")
	}
	release()
	if !eventually(func() bool { return r.extent(1) == everything }) {
		t.Fatal("the read returned, but the process is still marked as blocked")
	}
	go eventually(release)
	if text, _ := cmdline(1); text != "one\x00" {
		t.Errorf("after the release: got arguments %q", text)
	}
}

// A process of which no file can be read is still known to exist.
func TestBlockedProcess(t *testing.T) {
	r, release := blockingReader(t)
	before := runtime.NumGoroutine()
	r.add(2, everything)
	r.add(2, withoutMemory)
	var ev engine.RawEvent
	if !r.Describe(2, &ev) || ev.PID != 2 || ev.Task.Known != 0 {
		t.Errorf("got pid %d with fields %s, want pid 2 without fields", ev.PID, ev.Task.Known)
	}
	if _, _, err := r.Status(2); !errors.Is(err, ErrBlocked) {
		t.Errorf("blocked process: got status error %v", err)
	}
	r.remove(2)
	r.remove(2)
	if !r.Describe(2, &ev) || string(ev.Bytes(engine.FieldArgs)) != "two\x00" {
		t.Errorf("after the last read returned: got fields %s and other arguments, want \"two\"", ev.Task.Known)
	}
	release()
	r.end()
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		t.Errorf("got %d goroutines, want %d", runtime.NumGoroutine(), before)
	}
}

// Many blocked processes do not occupy all threads, and no thread remains.
func TestManyBlocked(t *testing.T) {
	r, release := blockingReader(t)
	r.patience, r.limit = 50*time.Millisecond, 50*time.Millisecond
	before := runtime.NumGoroutine()
	for range maxBlocked {
		var ev engine.RawEvent
		if r.Read(1, Readable, &ev); ev.Task.Known.Has(engine.FieldArgs) || !ev.Task.Known.Has(engine.FieldPPID) {
			t.Fatalf("blocked process: got known fields %s", ev.Task.Known)
		}
		r.mu.Lock()
		clear(r.extents) // as if the next process were new
		r.mu.Unlock()
	}
	if e := r.extent(2); e != withoutMemory {
		t.Errorf("extent of other processes: got %d with %d waiting reads", e, r.waiting.Load())
	}
	if n := r.Blocked(); n != maxBlocked {
		t.Errorf("got %d blocked processes, want %d", n, maxBlocked)
	}
	r.end()
	if !eventually(func() bool { release(); return r.waiting.Load() == 0 && runtime.NumGoroutine() <= before }) {
		t.Errorf("got %d goroutines, want %d; %d reads wait", runtime.NumGoroutine(), before, r.waiting.Load())
	}
}

// eventually waits until holds returns true.
func eventually(holds func() bool) bool {
	for range retry.For(30 * time.Second) {
		if holds() {
			return true
		}
	}
	return holds()
}

// If the main thread has exited, the values of the image come from another thread.
func TestEndedLeader(t *testing.T) {
	r := open(t)
	cmd := start(t, os.Args[0], endedLeaderArgument)
	pid := uint32(cmd.Process.Pid)
	if !eventually(func() bool {
		st, _, err := r.Status(pid)
		return err != nil || st.Zombie()
	}) {
		t.Fatal("the main thread does not end")
	}
	var ev engine.RawEvent
	if !r.Describe(pid, &ev) || ev.Kind != 0 {
		t.Fatalf("got kind %v, want a live process", ev.Kind)
	}
	exe, err := filepath.EvalSymlinks(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[engine.Field]string{
		engine.FieldComm: filepath.Base(exe),
		engine.FieldExe:  exe,
		engine.FieldArgs: os.Args[0] + "\x00" + endedLeaderArgument + "\x00",
	} {
		if f == engine.FieldComm {
			want = want[:min(len(want), maxComm)]
		}
		if got := string(ev.Bytes(f)); got != want || !ev.Task.Known.Has(f) {
			t.Errorf("%s: got %q, want %q", f, got, want)
		}
	}
	if !ev.Task.Known.Has(engine.FieldExeFile) || !ev.Task.Known.Has(engine.FieldEnviron) || ev.Task.Known.Has(engine.FieldCwd) {
		t.Errorf("got known fields %s", ev.Task.Known)
	}
}

const endedLeaderArgument = "ended-leader"

// init runs on the main thread. If the test has asked for it, the thread exits, and the others
// continue.
func init() {
	if len(os.Args) == 2 && os.Args[1] == endedLeaderArgument {
		runtime.LockOSThread()
		go func() { select {} }()
		unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
}
