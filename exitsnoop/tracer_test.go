package exitsnoop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/internal/barefork"
	"golang.org/x/sys/unix"
)

// traceAndPause traces a process under an id, prints "ok" and waits for a signal.
func traceAndPause(root string, args []string) error {
	s, err := NewStore(root)
	if err != nil {
		return err
	}
	pid, err1 := strconv.ParseUint(args[0], 10, 32)
	id, err2 := strconv.ParseUint(args[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := s.Trace(uint32(pid), &TaskInfo{TraceID: id}); err != nil {
		return err
	}
	fmt.Println("ok")
	for {
		unix.Pause()
	}
}

// waitAndPrint waits for the end of a trace and prints its status.
func waitAndPrint(root string, args []string) error {
	s, err := NewStore(root)
	if err != nil {
		return err
	}
	defer s.Close()
	id, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	st, err := s.Wait(context.Background(), id)
	if err == nil {
		fmt.Println(st.ExitCode)
	}
	return err
}

// TestRestart kills tracers. One of their processes ends while no tracer runs, the other while the
// next tracer runs.
func TestRestart(t *testing.T) {
	dir := root(t)
	ok(t, EnsureRunning(dir))
	between, later := pipe(t), pipe(t)
	pids := []uint32{
		uint32(start(t, script().WaitFor(between.r).Exit(7)).PID),
		uint32(start(t, script().WaitFor(later.r).Exit(8)).PID),
	}
	for i, pid := range pids {
		tracer := child("trace", dir, fmt.Sprint(pid), fmt.Sprint(i))
		out, err := tracer.StdoutPipe()
		ok(t, err)
		ok(t, tracer.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		tracer.Process.Kill()
		tracer.Wait()
		if line != "ok\n" {
			t.Fatalf("got output %q of the tracer, error %v", line, err)
		}
	}
	between.open(t)
	truth := []syscall.WaitStatus{reap(t, pids[0]), 8 << 8}
	ok(t, EnsureRunning(dir))
	for i := range pids {
		waiter := child("wait", dir, fmt.Sprint(i))
		var out strings.Builder
		waiter.Stdout = &out
		ok(t, waiter.Start())
		if i == 1 {
			later.open(t)
		}
		ok(t, waiter.Wait())
		if want := fmt.Sprintln(int32(truth[i])); out.String() != want {
			t.Errorf("process %d: got %q from the second tracer, want %q as from wait4", i, out.String(), want)
		}
	}
	if got := reap(t, pids[1]); got != truth[1] {
		t.Errorf("the second process ended with %#x", got)
	}
	st, err := pinnedStore(t, dir).Stats()
	ok(t, err)
	if st.Recorded != 2 || st.Lost != 0 || st.Tracing != 0 || st.Uncollected != 2 {
		t.Errorf("stats %+v", st)
	}
}

// TestPidNamespace traces a process of another pid namespace. TestLost has one with the wrong
// namespace in its entry.
func TestPidNamespace(t *testing.T) {
	s := private(t, Options{})
	own, err := namespaceOf("/proc/self/ns/pid")
	ok(t, err)
	g := pipe(t)
	p, err := barefork.Start(script().WaitFor(g.r).Exit(5), barefork.Options{Flags: unix.CLONE_NEWPID})
	ok(t, err)
	defer p.Free()
	pid := uint32(p.PID)
	ns, err := namespaceOf(fmt.Sprintf("/proc/%d/ns/pid", pid))
	ok(t, err)
	if ns == own {
		t.Fatal("the process has no pid namespace of its own")
	}
	want(t, s.Trace(pid, &TaskInfo{TraceID: 1, PidnsInfo: own}), ErrNamespace)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1, PidnsInfo: ns}))
	info, err := s.GetTracingTask(pid)
	ok(t, err)
	if info.PidnsInfo != ns {
		t.Errorf("traced in %+v, want %+v", info.PidnsInfo, ns)
	}
	g.open(t)
	truth := reap(t, pid)
	st, err := s.Wait(context.Background(), 1)
	ok(t, err)
	if st.Pid != pid || st.WaitStatus() != truth || truth.ExitStatus() != 5 {
		t.Errorf("got %+v, want %#x as from wait4", st, truth)
	}
	if st, err := s.Stats(); err != nil || st.Recorded != 1 || st.WrongNamespace != 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// TestReboot ends inits of pid namespaces by reboot(2): by themselves, by a thread, by another
// process of the namespace.
func TestReboot(t *testing.T) {
	s := private(t, Options{})
	calls := func(s *barefork.Script, how uint) *barefork.Script {
		return s.Call("reboot", unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, how, nil).Stop()
	}
	for how, signal := range map[uint]syscall.Signal{unix.LINUX_REBOOT_CMD_RESTART: unix.SIGHUP, unix.LINUX_REBOOT_CMD_HALT: unix.SIGINT} {
		for by := range uint64(3) {
			g := pipe(t)
			init := script().WaitFor(g.r)
			switch by {
			case 0:
				calls(init, how)
			case 1:
				init.Thread(calls(script(), how)).Stop()
			case 2:
				init.Child(0, calls(script(), how)).Stop()
			}
			p, err := barefork.Start(init, barefork.Options{Flags: unix.CLONE_NEWPID})
			ok(t, err)
			defer p.Free()
			pid := uint32(p.PID)
			ns, err := namespaceOf(fmt.Sprintf("/proc/%d/ns/pid", pid))
			ok(t, err)
			ok(t, s.Trace(pid, &TaskInfo{TraceID: by, PidnsInfo: ns}))
			g.open(t)
			truth := reap(t, pid)
			st, err := s.Wait(context.Background(), by)
			ok(t, err)
			if st.WaitStatus() != truth || truth.Signal() != signal {
				t.Errorf("by %d: recorded %+v, wait4 returned %#x, want %v", by, st, truth, signal)
			}
			ok(t, s.DeleteExitedEvent(by))
		}
	}
}

// TestRace traces processes while they end: with one and with two threads, reaped at once or later.
// Every process that Trace accepts must get its true status.
func TestRace(t *testing.T) {
	s := private(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := 1000
	if testing.Short() {
		n = 80 // slow on an emulated processor
	}
	var traced, gone int
	for i := range n {
		code, id := i%100, uint64(i)
		single, reapedAtOnce := i%4 < 2, i%2 == 0
		body := script().Exit(code)
		if !single { // the leader ends before the other thread
			body = script().Thread(script().ExitThread(1)).ExitThread(code)
		}
		// Processes with one thread share our memory and end within microseconds; the
		// others take longer, because they free their own.
		p, err := barefork.Start(body, barefork.Options{Share: single})
		ok(t, err)
		pid := uint32(p.PID)
		// The delays cover times before and after the end.
		for until := time.Now().Add(time.Duration(i%50) * 10 * time.Microsecond); time.Now().Before(until); {
		}
		status := make(chan syscall.WaitStatus, 1)
		if reapedAtOnce {
			go func() { status <- reap(t, pid) }()
		}
		err = s.Trace(pid, &TaskInfo{TraceID: id})
		if !reapedAtOnce {
			status <- reap(t, pid)
		}
		truth := <-status
		p.Free()
		switch {
		case err == nil:
			traced++
			st, err := s.Wait(ctx, id)
			if err != nil {
				t.Fatalf("process %d was traced, but is lost: %v", i, err)
			}
			if st.Pid != pid || st.WaitStatus() != truth {
				t.Errorf("process %d: recorded %+v, wait4 returned %#x", i, st, truth)
			}
			ok(t, s.DeleteExitedEvent(id))
		case errors.Is(err, ErrNoProcess):
			gone++
			_, err := s.GetExitedEvent(id)
			want(t, err, ErrNotTraced)
		default:
			t.Fatalf("process %d: %v", i, err)
		}
	}
	t.Logf("got %d traced and %d refused processes", traced, gone)
	if st, err := s.Stats(); err != nil || st.Recorded != uint64(traced) || st.Lost != 0 || st.Tracing != 0 || st.Uncollected != 0 {
		t.Errorf("got %d traced processes, stats %+v, error %v", traced, st, err)
	}
}
