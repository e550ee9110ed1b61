package cnproc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// run starts cmd and watches until the source reports its EXIT.
func run(t *testing.T, o Options, cmd *exec.Cmd, shared ...source.Options) (*sink, *Source) {
	t.Helper()
	s := openOnKernel(t, o, shared...)
	to := &sink{room: 1 << 20}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	watch(t, s, to, func() bool {
		return slices.ContainsFunc(to.events.Of(pid, engine.KindExit), func(ev *engine.RawEvent) bool { return !ev.Thread })
	})
	cmd.Wait()
	// No other event may follow.
	time.Sleep(5 * time.Millisecond)
	if err := s.Populate(to); err != nil {
		t.Fatal(err)
	}
	if st, _ := s.Stats(); st.LostTotal() != 0 || st.Bound {
		t.Fatalf("lost events: %+v", st)
	}
	return to, s
}

// wantStatus fails the test unless the end of cmd was reported with its wait status.
func wantStatus(t *testing.T, to *sink, cmd *exec.Cmd) {
	t.Helper()
	ev := to.events.One(t, cmd.Process.Pid, engine.KindExit)
	want := int32(cmd.ProcessState.Sys().(syscall.WaitStatus))
	if exit := ev.Task.Exit; !ev.Task.Known.Has(engine.FieldExit) || exit.WaitStatus != want || exit.Time != ev.Time || ev.Thread {
		t.Errorf("exit %+v (known fields %v, thread %v) at %d, want wait status %#x", exit, ev.Task.Known, ev.Thread, ev.Time, want)
	}
}

func TestConform(t *testing.T) {
	conform.Test(t, func(t testing.TB, shared source.Options) engine.Source {
		return openOnKernel(t, Options{}, shared)
	})
}

func now() uint64 { return clock.Monotonic() }

// The source finds in /proc the threads that started before Open.
func TestThreadsStartedBeforeOpen(t *testing.T) {
	cmd := conform.Child("wait")
	in, _ := conform.Start(t, cmd)
	s := openOnKernel(t, Options{})
	pid := uint32(cmd.Process.Pid)
	to := &sink{room: 1 << 20}
	watch(t, s, to, func() bool { return s.track.byPID.In[pid].state == seen })
	if tasks := len(s.proc.Tasks(pid)); int(s.track.byPID.In[pid].live) != tasks-1 {
		t.Errorf("got %d known threads, want %d as in /proc", s.track.byPID.In[pid].live, tasks)
	}
	in.Close()
	watch(t, s, to, func() bool { return len(to.events.Of(cmd.Process.Pid, engine.KindExit)) > 0 })
	cmd.Wait()
	exit := to.events.One(t, cmd.Process.Pid, engine.KindExit)
	if !s.track.last6 && !exit.Task.Known.Has(engine.FieldExit) {
		t.Skip("before Linux 6.0 the status of a process with several threads is not always known")
	}
	wantStatus(t, to, cmd)
}

// endBare starts a process that writes to one pipe and waits for another. It returns the reported
// EXIT and the wait status. before decides whether the source is opened before the process starts,
// or while the process waits.
func endBare(t *testing.T, before bool, o barefork.Options, script func(notify, wait int) *barefork.Script, shared ...source.Options) (*engine.RawEvent, unix.WaitStatus) {
	t.Helper()
	var pipes [4]int
	for i := range 2 {
		if err := unix.Pipe2(pipes[2*i:2*i+2], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, fd := range pipes {
			unix.Close(fd)
		}
	}()
	var s *Source
	to := &sink{room: 1 << 20}
	if before {
		s = openOnKernel(t, Options{}, shared...)
	}
	p, err := barefork.Start(script(pipes[1], pipes[2]), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	defer p.Kill()
	if n, err := unix.Read(pipes[0], make([]byte, 1)); n != 1 {
		t.Fatal(err)
	}
	if !before {
		s = openOnKernel(t, Options{}, shared...)
	}
	watch(t, s, to, func() bool {
		return s.track.byPID.In[uint32(p.PID)].state == seen
	})
	var status unix.WaitStatus
	unix.Write(pipes[3], []byte{0})
	if _, err := unix.Wait4(p.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	watch(t, s, to, func() bool { return len(to.events.Of(p.PID, engine.KindExit)) > 0 })
	return to.events.One(t, p.PID, engine.KindExit), status
}

// The kernel threads that io_uring adds to a process do not change the status of the process when
// they exit.
func TestStatusWithIOUring(t *testing.T) {
	if !kernelversion.AtLeast("5.12") {
		t.Skip("before Linux 5.12 the kernel makes no threads in a process")
	}
	params := make([]byte, 120) // struct io_uring_params
	params[8] = 2               // IORING_SETUP_SQPOLL
	for _, before := range []bool{true, false} {
		ev, want := endBare(t, before, barefork.Options{}, func(notify, wait int) *barefork.Script {
			return new(barefork.Script).Call("io_uring_setup", unix.SYS_IO_URING_SETUP, 4, params).Notify(notify).WaitFor(wait).Exit(9)
		})
		if !ev.Task.Known.Has(engine.FieldExit) || ev.Task.Exit.WaitStatus != int32(want) || want.ExitStatus() != 9 {
			t.Errorf("opened before the process: %v: got %+v, known %v, want %#x", before, ev.Task.Exit, ev.Task.Known, want)
		}
	}
}

// The EXIT of the first process of a pid namespace lacks the status that reboot(2) sets.
func TestStatusOfReboot(t *testing.T) {
	for i := range 3 {
		before, shared := i > 0, []source.Options{}
		if i == 2 {
			shared = append(shared, source.Options{Kinds: engine.EventExit, Exits: source.ExitsNonzero})
		}
		ev, want := endBare(t, before, barefork.Options{Flags: unix.CLONE_NEWPID}, func(notify, wait int) *barefork.Script {
			return new(barefork.Script).Notify(notify).WaitFor(wait).
				Call("reboot", unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_RESTART, 0).Exit(0)
		}, shared...)
		if ev.Task.Known.Has(engine.FieldExit) || want.Signal() != unix.SIGHUP {
			t.Errorf("opened before the process: %v: got %+v, known %v, want unknown (the status is %#x)", before, ev.Task.Exit, ev.Task.Known, want)
		}
	}
}

// A change of ids is read while a tracer stops the process in an exec that has no message yet. The
// event lacks the comm, which may be that of the new image. The same holds while an exec waits for
// its file.
func TestCommDuringExec(t *testing.T) {
	s, to := openOnKernel(t, Options{}), &sink{room: 1 << 20}
	next := filepath.Join(t.TempDir(), "next")
	if err := tinyelf.Write(next, 0); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.Close(); w.Close() }()
	p, err := barefork.Start(new(barefork.Script).WaitFor(int(r.Fd())).
		Call("setresuid", unix.SYS_SETRESUID, 5, -1, -1).Exec(next, []string{"next"}, nil), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	lockThread() // traces the process, and exits with the test
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.PID), 0, unix.PTRACE_O_TRACEEXEC, 0, 0); errno != 0 {
		t.Skipf("this machine allows no ptrace: %v", errno)
	}
	var status unix.WaitStatus
	if _, err := w.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(p.PID, &status, unix.WALL, nil); err != nil || status.TrapCause() != unix.PTRACE_EVENT_EXEC {
		t.Fatalf("got wait status %#x, error %v, want a stop at the exec", status, err)
	}
	watch(t, s, to, func() bool { return len(to.events.Of(p.PID, engine.KindIDChange)) > 0 })
	ev := to.events.One(t, p.PID, engine.KindIDChange)
	if comm := ev.Bytes(engine.FieldComm); ev.Task.Known.Has(engine.FieldComm) && !ev.Task.Cached.Has(engine.FieldComm) || len(to.events.Of(p.PID, engine.KindExec)) != 0 {
		t.Errorf("got comm %q, want it unknown before the EXEC", comm)
	}
}

func TestEnrichNone(t *testing.T) {
	cmd := command(t, "sh", "-c", "exit 3")
	to, _ := run(t, Options{Enrich: source.EnrichNone}, cmd)
	pid := cmd.Process.Pid
	if k := to.events.One(t, pid, engine.KindFork).Task.Known; k != engine.SetOf(engine.FieldPPID, engine.FieldBirthParentTID) {
		t.Errorf("FORK without enrichment: got known fields %v", k)
	}
	if k := to.events.One(t, pid, engine.KindExec).Task.Known; k != 0 {
		t.Errorf("EXEC without enrichment: got known fields %v", k)
	}
	wantStatus(t, to, cmd)
}
