package barefork

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func run(t *testing.T, s *Script) (*Process, unix.WaitStatus) {
	t.Helper()
	p, err := Start(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Free)
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	return p, status
}

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func TestShare(t *testing.T) {
	r, w := pipe(t)
	p, err := Start(new(Script).Call("getpid", unix.SYS_GETPID).WaitFor(r).Exit(7), Options{Share: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	if p.PID == os.Getpid() {
		t.Error("the script ran in the test's own process")
	}
	unix.Write(w, []byte{1})
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.PID, &status, 0, nil); err != nil || status.ExitStatus() != 7 {
		t.Errorf("got wait status %#x, error %v, want exit status 7", status, err)
	}
	if pid, _ := p.Result(0, 0); pid != p.PID || p.Check() != nil {
		t.Errorf("getpid returned %d, want %d; %v", pid, p.PID, p.Check())
	}
	for _, opts := range []Options{{Share: true, PID: 1}, {Share: true, Cgroup: 1}} {
		if p, err := Start(new(Script).Exit(0), opts); err == nil {
			p.Free()
			t.Errorf("%+v: got no error", opts)
		}
	}
	if _, err := Start(new(Script).Thread(new(Script).Exit(0)).Exit(0), Options{Share: true}); err == nil {
		t.Error("script with a thread: got no error")
	}
}

func TestScriptRunsItsCalls(t *testing.T) {
	s := new(Script).Call("getppid", unix.SYS_GETPPID).Call("getpid", unix.SYS_GETPID).Exit(7)
	p, status := run(t, s)
	if status.ExitStatus() != 7 {
		t.Fatalf("got wait status %#x, want exit status 7", status)
	}
	if ppid, _ := p.Result(0, 0); ppid != os.Getpid() {
		t.Errorf("getppid: got %d, want this process", ppid)
	}
	if pid, _ := p.Result(0, 1); pid != p.PID {
		t.Errorf("getpid: got %d, want %d", pid, p.PID)
	}
	if _, ok := p.Result(0, 2); ok {
		t.Error("exit_group returned")
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

func TestEndOfScript(t *testing.T) {
	_, status := run(t, new(Script))
	if status.ExitStatus() != EndStatus {
		t.Fatalf("got wait status %#x, want EndStatus", status)
	}
}

func TestSkipUnless(t *testing.T) {
	s := new(Script).Call("chdir", unix.SYS_CHDIR, "/nonexistent/dir").Call("getpid", unix.SYS_GETPID).SkipUnless(0)
	s.Call("chdir", unix.SYS_CHDIR, "/").Call("getpid", unix.SYS_GETPID).SkipUnless(2)
	p, status := run(t, s.Exit(3))
	if status.ExitStatus() != 3 {
		t.Fatalf("got wait status %#x, want exit status 3", status)
	}
	_, after := p.Result(0, 1)
	pid, _ := p.Result(0, 3)
	if after || pid != p.PID {
		t.Errorf("call after a failed call was made: %v; after a successful call: got pid %d", after, pid)
	}
}

func TestFailingCallIsNamed(t *testing.T) {
	p, _ := run(t, new(Script).Call("getpid", unix.SYS_GETPID).Call("chdir", unix.SYS_CHDIR, "/nonexistent/dir"))
	err := p.Check()
	if !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "call 1: chdir") {
		t.Fatalf("got error %v, want ENOENT of call 1", err)
	}
}

// The thread ends the group while the leader waits forever.
func TestThreadEndsGroup(t *testing.T) {
	for range 50 {
		_, status := run(t, new(Script).Thread(new(Script).Exit(11)).Stop())
		if status.ExitStatus() != 11 {
			t.Fatalf("got wait status %#x, want exit status 11", status)
		}
	}
}

func TestLeaderEndsFirst(t *testing.T) {
	r, w := pipe(t)
	p, err := Start(new(Script).Thread(new(Script).WaitFor(r).Exit(12)).ExitThread(3), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	for end := time.Now().Add(10 * time.Second); p.Thread(1) == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the thread was not started within 10 s")
		}
	}
	var status unix.WaitStatus
	if pid, err := unix.Wait4(p.PID, &status, unix.WNOHANG, nil); pid != 0 || err != nil {
		t.Fatalf("wait4 of a group with a live thread: got pid %d, error %v", pid, err)
	}
	if _, err := unix.Write(w, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(p.PID, &status, 0, nil); err != nil || status.ExitStatus() != 12 {
		t.Fatalf("got wait status %#x, error %v, want exit status 12", status, err)
	}
	if tid := p.Thread(1); tid <= 0 || tid == p.PID {
		t.Errorf("got thread id %d for process %d", tid, p.PID)
	}
}

// The stamps are in order, and a vforked child exits before its parent continues.
func TestChild(t *testing.T) {
	for name, flags := range map[string]uintptr{"fork": 0, "vfork": unix.CLONE_VM | unix.CLONE_VFORK} {
		var before unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
		child := new(Script).Stamp().Call("getppid", unix.SYS_GETPPID).Exit(5)
		s := new(Script).Stamp().Child(flags, child).Stamp().
			Call("wait4", unix.SYS_WAIT4, -1, nil, 0, nil).Stamp().Exit(6)
		p, status := run(t, s)
		if err := p.Check(); err != nil || status.ExitStatus() != 6 {
			t.Fatalf("%s: got wait status %#x, error %v, want exit status 6", name, status, err)
		}
		if pid, _ := p.Result(0, 3); pid != p.Thread(1) || pid <= 0 {
			t.Errorf("%s: wait4: got %d, want the child %d", name, pid, p.Thread(1))
		}
		if ppid, _ := p.Result(1, 1); ppid != p.PID {
			t.Errorf("%s: parent of the child: got %d, want %d", name, ppid, p.PID)
		}
		last := uint64(before.Nano())
		stamp := func(thread, i int) {
			if ns, ok := p.Stamp(thread, i); !ok || ns < last {
				t.Errorf("%s: stamp %d of thread %d: got %d, ok %v, after %d", name, i, thread, ns, ok, last)
			} else {
				last = ns
			}
		}
		stamp(0, 0)
		if flags != 0 {
			stamp(1, 0)
			stamp(0, 2)
		}
		stamp(0, 4)
	}
}

func TestExec(t *testing.T) {
	if os.Getenv("BAREFORK_TEST") == "exec" {
		os.Exit(13)
	}
	s := new(Script).Exec("/proc/self/exe", []string{"x", "-test.run=^TestExec$"}, []string{"BAREFORK_TEST=exec"})
	if p, status := run(t, s); status.ExitStatus() != 13 {
		t.Fatalf("got wait status %#x, error %v, want exit status 13", status, p.Check())
	}
}

func TestBadScripts(t *testing.T) {
	long := new(Script)
	for range maxCalls {
		long.Call("getpid", unix.SYS_GETPID)
	}
	for name, s := range map[string]*Script{
		"too long":           long,
		"NUL in a string":    new(Script).Call("chdir", unix.SYS_CHDIR, "a\x00b"),
		"unknown type":       new(Script).Call("chdir", unix.SYS_CHDIR, 1.5),
		"NUL in an argument": new(Script).Exec("/x", []string{"\x00"}, nil),
	} {
		if p, err := Start(s, Options{}); err == nil {
			t.Errorf("%s: Start returned no error", name)
			unix.Kill(p.PID, unix.SIGKILL)
		}
	}
}

// A process executes a program that continues with its script. The program starts a process with a
// pid in a new namespace that the parent reads. That process has a thread, which executes the next
// program.
func TestResume(t *testing.T) {
	write := func(path string) func([]byte) error {
		return func(elf []byte) error { return os.WriteFile(path, elf, 0o755) }
	}
	one, two := t.TempDir()+"/one", t.TempDir()+"/two"
	thread := new(Script).Exec(two, []string{"two"}, nil).Resume(write(two)).
		Call("getpid", unix.SYS_GETPID).Call("readlinkat", unix.SYS_READLINKAT, unix.AT_FDCWD, "/proc/self/exe", Buffer(200), 200)
	thread.Exit(3)
	child := new(Script).Thread(thread).Stop()
	s := new(Script).Exec(one, []string{"one"}, nil).Resume(write(one))
	wait := s.Len() + 1
	s.Clone(child, &Clone{Flags: unix.CLONE_PARENT_SETTID, ParentTID: Word{s, wait, 0}})
	s.Call("wait4", unix.SYS_WAIT4, 0, Word{s, wait, 4}, 0, nil).Exit(4)
	p, status := run(t, s)
	if err := p.Check(); err != nil || status.ExitStatus() != 4 {
		t.Fatalf("got wait status %#x, error %v, want exit status 4", status, err)
	}
	if pid, _ := p.Result(0, wait); pid == 0 || pid != p.Thread(1) {
		t.Errorf("wait4: got %d, want the child %d", pid, p.Thread(1))
	}
	if status := *(*int32)(unsafe.Pointer(&p.calls(0)[wait].args[4])); status != 3<<8 {
		t.Errorf("got the child's status %#x, want exit status 3", status)
	}
	if pid, _ := p.Result(2, 1); pid != p.Thread(1) || p.Thread(2) == pid {
		t.Errorf("got pid %d in the thread, its process has %d", pid, p.Thread(1))
	}
	if n, _ := p.Result(2, 2); n <= 0 || string(p.Bytes(2, 2, 2, n)) != two {
		t.Errorf("the thread did not execute %s: readlinkat returned %d", two, n)
	}
}
