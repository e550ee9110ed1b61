package cnproc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/sourcetest"
)

// run starts cmd and watches until the kernel reports its end.
func run(t *testing.T, o Options, cmd *exec.Cmd) (*sink, *Source) {
	t.Helper()
	s := kernel(t, o)
	to := &sink{room: 1 << 20}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	watch(t, s, to, func() bool { return len(to.events.Of(pid, engine.KindExit)) > 0 })
	cmd.Wait()
	// Nothing more may come of it.
	time.Sleep(5 * time.Millisecond)
	if err := s.populate(to); err != nil {
		t.Fatal(err)
	}
	if st, _ := s.Stats(); st.LostTotal() != 0 || st.Bound {
		t.Fatalf("lost events: %+v", st)
	}
	return to, s
}

func wantStatus(t *testing.T, to *sink, cmd *exec.Cmd) {
	t.Helper()
	ev := to.events.One(t, cmd.Process.Pid, engine.KindExit)
	sourcetest.WantStatus(t, ev, cmd)
	if ev.Thread || ev.Task.Exit.Time != 0 && ev.Task.Exit.Time != ev.Time {
		t.Errorf("%+v", ev)
	}
}

func now() uint64 { return readClock(unix.CLOCK_MONOTONIC) }

func TestForkExecExit(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x; exit 3")
	in, _ := cmd.StdinPipe()
	cmd.Dir = t.TempDir()
	s := kernel(t, Options{})
	to := &sink{room: 1 << 20}
	before := now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	watch(t, s, to, func() bool { return len(to.events.Of(pid, engine.KindExec)) > 0 })

	fork, ex := to.events.One(t, pid, engine.KindFork), to.events.One(t, pid, engine.KindExec)
	if fork.Time < before || ex.Time < fork.Time || ex.Time > now() {
		t.Errorf("stamps %d, %d are not after %d", fork.Time, ex.Time, before)
	}
	if fork.Task.PPID != uint32(os.Getpid()) || !fork.Task.Known.Has(engine.FieldPPID) || fork.Creator != 0 {
		t.Errorf("fork: ppid %d, creator %d", fork.Task.PPID, fork.Creator)
	}
	// The truth, from the process while it waits.
	r, err := procfs.Open()
	if err != nil {
		t.Skip(err)
	}
	defer r.Close()
	var truth engine.RawEvent
	if _, err := r.Read(uint32(pid), procfs.Readable, &truth); err != nil {
		t.Fatal(err)
	}
	if ex.Task.Known != procfs.Readable {
		t.Errorf("exec: unknown %v", procfs.Readable&^ex.Task.Known)
	}
	if d := cmp.Diff(truth.Task, ex.Task); d != "" {
		t.Error(d)
	}
	for _, f := range []engine.Field{engine.FieldComm, engine.FieldFilename, engine.FieldCmdline, engine.FieldCwd, engine.FieldCgroup} {
		if string(ex.Bytes(f)) != string(truth.Bytes(f)) {
			t.Errorf("exec: %v is %q, want %q", f, ex.Bytes(f), truth.Bytes(f))
		}
	}
	if got := string(ex.Bytes(engine.FieldCmdline)); got != "/bin/sh\x00-c\x00read x; exit 3\x00" {
		t.Errorf("cmdline %q", got)
	}
	in.Close()
	watch(t, s, to, func() bool { return len(to.events.Of(pid, engine.KindExit)) > 0 })
	cmd.Wait()
	wantStatus(t, to, cmd)
	if ev := to.events.One(t, pid, engine.KindExit); ev.Task.PPID != uint32(os.Getpid()) && ev.Task.Known.Has(engine.FieldPPID) {
		t.Errorf("exit: ppid %d", ev.Task.PPID)
	}
}

// A fork that executes nothing has the image of its parent; one that executes
// must never get the image of later.
func TestForkImage(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "(read y; :) <&0 & wait; exec /bin/true")
	in, _ := cmd.StdinPipe()
	s := kernel(t, Options{})
	to := &sink{room: 1 << 20}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	sub := func() (forks []*engine.RawEvent) {
		for _, ev := range to.events {
			if ev.Kind == engine.KindFork && int(ev.Task.PPID) == pid {
				forks = append(forks, ev)
			}
		}
		return forks
	}
	watch(t, s, to, func() bool { return len(sub()) > 0 })
	in.Close()
	watch(t, s, to, func() bool { return len(to.events.Of(pid, engine.KindExit)) > 0 })
	cmd.Wait()
	for _, ev := range to.events {
		if ev.Task.Known.Has(engine.FieldFilename) && strings.HasSuffix(string(ev.Bytes(engine.FieldFilename)), "/true") &&
			(int(ev.PID) == pid || ev.Task.PPID == uint32(pid)) && (ev.Kind != engine.KindExec || int(ev.PID) != pid) {
			t.Errorf("%v of %d says %q", ev.Kind, ev.PID, ev.Bytes(engine.FieldFilename))
		}
	}
	self, _ := os.Readlink("/proc/self/exe")
	if f := to.events.One(t, pid, engine.KindFork); f.Task.Known.Has(engine.FieldFilename) && string(f.Bytes(engine.FieldFilename)) != self {
		t.Errorf("the fork of the shell runs %q", f.Bytes(engine.FieldFilename))
	}
}

// TestExecChain runs programs one after the other in the same process: what is
// known of each must be its own.
func TestExecChain(t *testing.T) {
	const depth = 40
	script := fmt.Sprintf(`if [ $1 = %d ]; then exit 0; fi; n=$1; exec env - /bin/sh -c "$0" "$0" $((n+1))`, depth)
	cmd := exec.Command("/bin/sh", "-c", script, script, "0")
	to, _ := run(t, Options{}, cmd)
	known, names := 0, 0
	for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindExec) {
		names++
		k := ev.Task.Known
		if !k.Has(engine.FieldCmdline) || !k.Has(engine.FieldFilename) || !k.Has(engine.FieldComm) {
			continue
		}
		known++
		argv0, _, _ := strings.Cut(string(ev.Bytes(engine.FieldCmdline)), "\x00")
		file := string(ev.Bytes(engine.FieldFilename))
		comm := string(ev.Bytes(engine.FieldComm))
		// sh and env take turns, beginning with sh.
		if (names%2 == 0) != (argv0 == "env") || argv0 == "env" != (comm == "env") || comm == "sh" && !strings.HasSuffix(file, "sh") {
			t.Errorf("argv0 %q, comm %q, file %q", argv0, comm, file)
		}
	}
	t.Logf("image known of %d execs of %d", known, names)
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		name string
		cmd  *exec.Cmd
	}{
		{"zero", exec.Command("true")},
		{"code", exec.Command("sh", "-c", "exit 200")},
		{"signal", exec.Command("sh", "-c", "kill -TERM $$")},
		{"core", exec.Command("sh", "-c", "ulimit -c unlimited; kill -SEGV $$")},
		{"leader first", sourcetest.Child("leader-first")},
		{"leader last", sourcetest.Child("leader-last")},
		{"thread ends the group", sourcetest.Child("thread-ends-group")},
		{"thread kills the group", sourcetest.Child("thread-crashes")},
		{"exec from a thread", sourcetest.Child("exec-from-thread")},
		{"threads", sourcetest.Child("threads")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "core" {
				c.cmd.Dir = t.TempDir()
			}
			to, s := run(t, Options{}, c.cmd)
			wantStatus(t, to, c.cmd)
			for _, ev := range to.events {
				if ev.Thread && ev.Kind != engine.KindIDChange && ev.Kind != engine.KindComm {
					t.Errorf("thread event %v without Options.Threads", ev.Kind)
				}
			}
			if c.name == "leader first" {
				if ev := to.events.One(t, c.cmd.Process.Pid, engine.KindExit); ev.TID == ev.PID {
					t.Errorf("the exit is the leader's")
				}
			}
			if s.groups.byPID[uint32(c.cmd.Process.Pid)] != (group{}) {
				t.Errorf("left behind: %+v", s.groups.byPID[uint32(c.cmd.Process.Pid)])
			}
			if c.name == "core" && len(to.events.Of(c.cmd.Process.Pid, engine.KindCoreDump)) > 1 {
				t.Error("more than one core dump")
			}
		})
	}
}

func TestThreadsOption(t *testing.T) {
	cmd := sourcetest.Child("threads")
	to, _ := run(t, Options{Threads: true, Enrich: EnrichNone}, cmd)
	forks, exits, groups := map[uint32]bool{}, map[uint32]bool{}, 0
	for _, ev := range to.events {
		if int(ev.PID) != cmd.Process.Pid {
			continue
		}
		switch {
		case ev.Kind == engine.KindFork && ev.Thread:
			forks[ev.TID] = true
		case ev.Kind == engine.KindExit && ev.Thread:
			exits[ev.TID] = true
		case ev.Kind == engine.KindExit:
			groups++
		}
	}
	delete(exits, uint32(cmd.Process.Pid)) // the leader's, if others outlived it
	if len(forks) < 20 || groups != 1 || cmp.Diff(forks, exits) != "" {
		t.Errorf("%d threads began, %d ended, %d exits of the group: %s", len(forks), len(exits), groups, cmp.Diff(forks, exits))
	}
}

// Threads that began before the source was opened are found in /proc.
func TestThreadsOfBefore(t *testing.T) {
	cmd := sourcetest.Child("wait")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s := kernel(t, Options{})
	pid := uint32(cmd.Process.Pid)
	if tasks := len(s.proc.Tasks(pid)); int(s.groups.byPID[pid].live) != tasks-1 {
		t.Errorf("%d threads are known, /proc has %d", s.groups.byPID[pid].live, tasks)
	}
	in.Close()
	to := &sink{room: 1 << 20}
	watch(t, s, to, func() bool { return len(to.events.Of(cmd.Process.Pid, engine.KindExit)) > 0 })
	cmd.Wait()
	wantStatus(t, to, cmd)
}

func TestIDChange(t *testing.T) {
	cmd := sourcetest.Child("ids")
	cmd.Stdin = nil
	to, _ := run(t, Options{Enrich: EnrichNone}, cmd)
	var got []string
	for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindIDChange) {
		task := ev.Task
		got = append(got, fmt.Sprintf("%v %v %v %v %v %v", ev.IDChange, ev.Thread, task.Known, task.Cred, task.SID == ev.PID, task.PGID == ev.PID))
	}
	want := []string{
		"SETGID false gid+egid {0 0 0 1234 1235 0} false false",
		"SETUID false uid+euid {4321 4322 0 0 0 0} false false",
		"SETSID false pgid,sid {0 0 0 0 0 0} true true",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestComm(t *testing.T) {
	for _, threads := range []bool{true, false} {
		cmd := sourcetest.Child("comm")
		to, _ := run(t, Options{Threads: threads}, cmd)
		var got []string
		for _, ev := range to.events.Of(cmd.Process.Pid, engine.KindComm) {
			got = append(got, fmt.Sprintf("%q thread=%v %v", ev.Bytes(engine.FieldComm), ev.Thread, ev.TID != ev.PID))
		}
		want := []string{`"brand new (name" thread=false false`}
		if threads {
			want = append(want, `"a thread" thread=true true`)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Threads %v: %s", threads, d)
		}
	}
}

func TestPtrace(t *testing.T) {
	// PTRACE_TRACEME sends no message; attaching does.
	target := exec.Command("cat")
	in, _ := target.StdinPipe()
	s := kernel(t, Options{Enrich: EnrichNone})
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); target.Process.Kill(); target.Wait() }()
	tracer := make(chan int)
	go func() { // the thread traces, and ends with the goroutine
		lockThread()
		if err := syscall.PtraceAttach(target.Process.Pid); err != nil {
			tracer <- 0
			return
		}
		var ws syscall.WaitStatus
		syscall.Wait4(target.Process.Pid, &ws, 0, nil)
		syscall.PtraceDetach(target.Process.Pid)
		tracer <- unix.Gettid()
	}()
	tid := <-tracer
	if tid == 0 {
		t.Skip("this machine allows no ptrace")
	}
	to := &sink{room: 1 << 20}
	watch(t, s, to, func() bool { return len(to.events.Of(target.Process.Pid, engine.KindPtrace)) >= 2 })
	evs := to.events.Of(target.Process.Pid, engine.KindPtrace)
	if int(evs[0].Tracer.PID) != os.Getpid() || int(evs[0].Tracer.TID) != tid {
		t.Errorf("attached by %+v, want %d of %d", evs[0].Tracer, tid, os.Getpid())
	}
	if evs[1].Tracer.PID != 0 || evs[1].Tracer.TID != 0 {
		t.Errorf("detached: %+v", evs[1].Tracer)
	}
}

func TestEnrichNone(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 3")
	to, s := run(t, Options{Enrich: EnrichNone}, cmd)
	pid := cmd.Process.Pid
	if k := to.events.One(t, pid, engine.KindFork).Task.Known; k != engine.FieldPPID.Set() {
		t.Errorf("fork: known %v", k)
	}
	if k := to.events.One(t, pid, engine.KindExec).Task.Known; k != 0 {
		t.Errorf("exec: known %v", k)
	}
	wantStatus(t, to, cmd)
	if s.enrich.reads != 0 {
		t.Errorf("%d processes were read", s.enrich.reads)
	}
}
