package exitsnoop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/tinyelf"
	"golang.org/x/sys/unix"
)

func script() *barefork.Script { return new(barefork.Script) }

// TestExit ends processes in every way and compares the record with wait4(2).
func TestExit(t *testing.T) {
	s := private(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	stop := func(s *barefork.Script, _ int) *barefork.Script { return s.Stop() }
	var ended uint64
	for _, tt := range []struct {
		name   string
		script func(s *barefork.Script, gate int) *barefork.Script
		signal unix.Signal
		core   bool // the signal may write a core file
		late   bool // traced again after the leader's end
	}{
		{name: "code", script: func(s *barefork.Script, gate int) *barefork.Script { return s.WaitFor(gate).Exit(7) }},
		{name: "SIGTERM", script: stop, signal: unix.SIGTERM},
		{name: "SIGKILL", script: stop, signal: unix.SIGKILL},
		{name: "SIGSEGV", script: stop, signal: unix.SIGSEGV},
		{name: "SIGTERM", script: stop, signal: unix.SIGTERM},
		{name: "real-time signal", script: stop, signal: unix.Signal(40)},
		{name: "core", script: stop, signal: unix.SIGSEGV, core: true},
		{name: "thread ends the group", script: func(s *barefork.Script, gate int) *barefork.Script {
			return s.Thread(script().WaitFor(gate).Exit(9)).Stop()
		}},
		{name: "leader first", script: func(s *barefork.Script, gate int) *barefork.Script {
			return s.Thread(script().WaitFor(gate).ExitThread(5)).ExitThread(3)
		}, late: true},
		{name: "leader first, group status", script: func(s *barefork.Script, gate int) *barefork.Script {
			return s.Thread(script().WaitFor(gate).Exit(5)).ExitThread(3)
		}, late: true},
		{name: "leader first, then a signal", script: func(s *barefork.Script, _ int) *barefork.Script {
			return s.Thread(script().Stop()).ExitThread(3)
		}, signal: unix.SIGTERM, late: true},
		{name: "other thread first", script: func(s *barefork.Script, gate int) *barefork.Script {
			return s.Thread(script().ExitThread(5)).WaitFor(gate).ExitThread(3)
		}},
	} {
		run := func(t *testing.T, late bool) {
			gate := pipe(t)
			ready := pipe(t)
			limit := unix.Rlimit{}
			if tt.core {
				limit = unix.Rlimit{Cur: 64 << 20, Max: 64 << 20}
			}
			born := clock.Monotonic()
			p := start(t, tt.script(script().Call("chdir", unix.SYS_CHDIR, t.TempDir()).
				Call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{limit}, nil).Notify(ready.w), gate.r))
			ready.wait(t)
			pid := uint32(p.PID)
			if late {
				awaitZombie(t, pid)
			}
			id, err := s.TraceProcess(pid)
			ok(t, err)
			want(t, s.Trace(pid, &TaskInfo{TraceID: 1}), ErrAlreadyTraced)
			if tt.late {
				awaitZombie(t, pid)
			}
			if _, err := s.GetExitedEvent(id); !errors.Is(err, ErrNotEnded) || !errors.Is(err, ebpf.ErrKeyNotExist) {
				t.Errorf("before the end: %v", err)
			}
			info, err := s.GetTracingTask(pid)
			ok(t, err)
			if ns, _ := namespaceOf("/proc/self/ns/pid"); info.PidnsInfo != ns || info.TraceID != id {
				t.Errorf("traced as %+v", info)
			}
			if tt.signal != 0 {
				unix.Kill(p.PID, tt.signal)
			} else {
				gate.open(t)
			}
			st, err := s.Wait(ctx, id)
			ok(t, err)
			ended++
			truth := reap(t, pid)
			if st.WaitStatus() != truth || st.Pid != pid || st.StartBoottime == 0 {
				t.Errorf("got %+v, want %#x as from wait4", st, truth)
			}
			if st.ExittedTime < born || st.ExittedTime > clock.Monotonic() {
				t.Errorf("got end %d, want it between the birth %d and now", st.ExittedTime, born)
			}
			if tt.signal != 0 && truth.Signal() != tt.signal || truth.CoreDump() && !tt.core {
				t.Fatalf("the process ended in another way: wait status %#x", truth)
			}
			_, err = s.GetTracingTask(pid)
			want(t, err, ErrNotTraced)
			want(t, s.DeleteTracingTask(pid), ErrNotTraced)
			ok(t, s.DeleteExitedEvent(id))
			want(t, s.DeleteExitedEvent(id), ErrNotTraced)
			_, err = s.Wait(ctx, id)
			want(t, err, ErrNotTraced)
			if tt.core && !truth.CoreDump() {
				t.Skip("the kernel wrote no core file: see kernel.core_pattern")
			}
		}
		t.Run(tt.name, func(t *testing.T) { run(t, false) })
		if tt.late {
			t.Run(tt.name+", traced late", func(t *testing.T) { run(t, true) })
		}
	}
	st, err := s.Stats()
	ok(t, err)
	if st.Recorded != ended || st.Lost != 0 || st.Tracing != 0 || st.Uncollected != 0 {
		t.Errorf("%d ended, stats %+v", ended, st)
	}
}

// If a thread other than the leader executes, the earlier exit of the leader does not determine the
// status.
func TestExecNonleader(t *testing.T) {
	s := private(t, Options{})
	program := filepath.Join(t.TempDir(), "five")
	ok(t, tinyelf.Write(program, 5))
	gate := pipe(t)
	p := start(t, script().Thread(script().WaitFor(gate.r).Exec(program, []string{"five"}, nil)).Stop())
	id, err := s.TraceProcess(uint32(p.PID))
	ok(t, err)
	gate.open(t)
	st, err := s.Wait(context.Background(), id)
	ok(t, err)
	if truth := reap(t, uint32(p.PID)); st.WaitStatus() != truth || truth.ExitStatus() != 5 {
		t.Errorf("got %#x, want %#x as from wait4", st.ExitCode, truth)
	}
}

// Each of the two programs for exits records all exits alone, as it must if the kernel skips the
// other. If both run, an exit is counted once.
func TestTwin(t *testing.T) {
	for _, without := range append([]string{""}, linkNames...) {
		t.Run("without "+without, func(t *testing.T) {
			s := private(t, Options{})
			if without != "" {
				ok(t, s.links[without].Close())
				delete(s.links, without)
			}
			for i, script := range []*barefork.Script{script().Stop(), script().Thread(script().Stop()).Stop()} {
				pid := uint32(start(t, script).PID)
				ok(t, s.Trace(pid, &TaskInfo{TraceID: uint64(i)}))
				truth := end(t, pid)
				st, err := s.GetExitedEvent(uint64(i))
				ok(t, err)
				if st.WaitStatus() != truth {
					t.Errorf("got %#x, want %#x as from wait4", st.ExitCode, truth)
				}
			}
			if st, err := s.Stats(); err != nil || st.Recorded != 2 || st.Lost != 0 || st.WrongStart != 0 {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	s := private(t, Options{})
	pid := sleeper(t)
	gone := uint32(start(t, script().Exit(0)).PID)
	zombie := gone
	// not reaped
	ok(t, unix.Waitid(unix.P_PID, int(zombie), nil, unix.WEXITED|unix.WNOWAIT, nil))
	ok(t, CanTrace(pid))
	want(t, CanTrace(0), ErrBadPid)
	want(t, CanTrace(zombie), ErrNoProcess)
	want(t, s.Trace(0, &TaskInfo{TraceID: 1}), ErrBadPid)
	want(t, s.Trace(1<<31, &TaskInfo{TraceID: 1}), ErrBadPid)
	want(t, s.Trace(zombie, &TaskInfo{TraceID: 1}), ErrNoProcess)
	reap(t, gone)
	want(t, s.Trace(gone, &TaskInfo{TraceID: 1}), ErrNoProcess)
	want(t, s.Trace(gone, &TaskInfo{TraceID: 1}), unix.ESRCH)
	want(t, s.Trace(pid, &TaskInfo{TraceID: 1, PidnsInfo: PidnsInfo{4, 12345}}), ErrNamespace)
	if s.Trace(pid, nil) == nil {
		t.Error("no TaskInfo: no error")
	}
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	other := sleeper(t)
	want(t, s.Trace(other, &TaskInfo{TraceID: 1}), ErrDuplicateID)
	want(t, s.Trace(other, &TaskInfo{TraceID: 1}), ebpf.ErrKeyExist)
	want(t, s.Trace(pid, &TaskInfo{TraceID: 2}), ErrAlreadyTraced)
	_, err := s.GetExitedEvent(2)
	want(t, err, ErrNotTraced) // no entries left
	want(t, s.DeleteExitedEvent(1), ErrNotEnded)
	ok(t, s.DeleteTracingTask(pid))
	st, err := s.Stats()
	ok(t, err)
	if events, _ := s.allEvents(); st.Tracing != 0 || len(events) != 0 {
		t.Errorf("left behind: %+v, %v", st, events)
	}
	ok(t, s.Close())
	ok(t, s.Close())
	want(t, s.Trace(pid, &TaskInfo{TraceID: 1}), os.ErrClosed)
}

func TestFull(t *testing.T) {
	s := private(t, Options{MaxTracing: 2, MaxEvents: 3})
	a, b, c := sleeper(t), sleeper(t), sleeper(t)
	ok(t, s.Trace(a, &TaskInfo{TraceID: 1}))
	ok(t, s.Trace(b, &TaskInfo{TraceID: 2}))
	want(t, s.Trace(c, &TaskInfo{TraceID: 3}), ErrFull)
	end(t, a)
	ok(t, s.Trace(c, &TaskInfo{TraceID: 3}))
	end(t, b)
	want(t, s.Trace(sleeper(t), &TaskInfo{TraceID: 4}), ErrFull)
	want(t, s.ExitedEventFromWaitStatus(4, 1, 0), ErrFull)
	end(t, c)
	list, err := s.ExitedEvents()
	ok(t, err)
	st, err := s.Stats()
	ok(t, err)
	if len(list) != 3 || st.Recorded != 3 || st.Refused != 3 || st.Lost != 0 {
		t.Errorf("%d exits, %+v", len(list), st)
	}
	ok(t, s.DeleteExitedEvent(1))
	d := sleeper(t)
	ok(t, s.Trace(d, &TaskInfo{TraceID: 4}))
	end(t, d)
	_, err = s.GetExitedEvent(4)
	ok(t, err)
}

// An exit that cannot be stored is reported as lost, here because its reserved room was removed.
func TestLost(t *testing.T) {
	s := private(t, Options{})
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	ok(t, s.events.Delete(uint64(1)))
	end(t, pid)
	st, err := s.Stats()
	ok(t, err)
	if st.Lost != 1 || st.Recorded != 0 {
		t.Errorf("stats %+v", st)
	}
	task, err := s.task(pid)
	ok(t, err)
	ok(t, s.markLost(pid, task))
	_, err = s.GetExitedEvent(1)
	want(t, err, ErrLost)
	want(t, err, unix.ENOENT)

	// The start time of this process does not match its entry.
	pid = sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 2}))
	task, err = s.task(pid)
	ok(t, err)
	task.StartMin, task.StartEnd = 1, 2
	ok(t, s.tasks.Update(pid, task, ebpf.UpdateExist))
	end(t, pid)
	_, err = s.Wait(context.Background(), 2)
	want(t, err, ErrLost)
	_, err = s.GetExitedEvent(2)
	want(t, err, ErrLost)
	ok(t, s.DeleteExitedEvent(2))

	// The pid namespace of this process does not match its entry.
	pid = sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 3}))
	task, err = s.task(pid)
	ok(t, err)
	task.PidnsIno++
	ok(t, s.tasks.Update(pid, task, ebpf.UpdateExist))
	end(t, pid)
	got, err := s.Collect(0)
	ok(t, err)
	_, err = s.GetExitedEvent(3)
	want(t, err, ErrLost)
	if st, _ := s.Stats(); got.Lost != 1 || st.WrongNamespace != 1 || st.WrongStart != 1 || st.Unseen != 2 {
		t.Errorf("got collected %+v, stats %+v", got, st)
	}
}

// A reused pid can be traced; the old trace is lost.
func TestReuse(t *testing.T) {
	s := private(t, Options{})
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	task, err := s.task(pid)
	ok(t, err)
	task.StartMin, task.StartEnd = 1, 2 // as if it belonged to an earlier process
	ok(t, s.tasks.Update(pid, task, ebpf.UpdateExist))
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 2}))
	_, err = s.GetExitedEvent(1)
	want(t, err, ErrLost)
	end(t, pid)
	_, err = s.GetExitedEvent(2)
	ok(t, err)
}

func TestFromWaitStatus(t *testing.T) {
	s := private(t, Options{})
	ok(t, s.ExitedEventFromWaitStatus(1, 77, 0x0700))
	st, err := s.Wait(context.Background(), 1)
	ok(t, err)
	if st.Pid != 77 || st.WaitStatus().ExitStatus() != 7 || st.StartBoottime != 0 || st.ExittedTime != 0 {
		t.Errorf("%+v", st)
	}
	want(t, s.ExitedEventFromWaitStatus(1, 77, 0), ErrDuplicateID)
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 2}))
	want(t, s.ExitedEventFromWaitStatus(2, pid+1, 9), ErrDuplicateID)
	ok(t, s.ExitedEventFromWaitStatus(2, pid, 9))
	_, err = s.GetTracingTask(pid)
	want(t, err, ErrNotTraced)
}

func TestWaitEnds(t *testing.T) {
	s := private(t, Options{})
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Wait(ctx, 1)
	want(t, err, context.DeadlineExceeded)
	for range s.Events(ctx) {
		t.Error("an event")
	}
	time.AfterFunc(20*time.Millisecond, func() { s.Close() })
	waited := make(chan error)
	go func() {
		_, err := s.Wait(context.Background(), 1)
		waited <- err
	}()
	for _, err := range s.Events(context.Background()) {
		t.Error(err)
	}
	want(t, <-waited, os.ErrClosed)
}

// Close between the start of Events and its first scan ends Events as usual.
func TestCloseBeforeScan(t *testing.T) {
	s := private(t, Options{})
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	w, err := s.newWatcher()
	ok(t, err)
	defer w.close()
	ok(t, s.Close())
	want(t, w.add(watched{id: 1, pid: pid}), os.ErrClosed)
	want(t, w.scan(), os.ErrClosed)
}

// A trace that a scan finds before the watcher gets it is watched once.
func TestNewTraceOnce(t *testing.T) {
	s := private(t, Options{})
	w, err := s.newWatcher()
	ok(t, err)
	defer w.close()
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	ok(t, w.scan())
	end(t, pid)
	id, _, err := w.next(context.Background())
	ok(t, err)
	if id != 1 {
		t.Errorf("trace %d ended, not 1", id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	id, _, err = w.next(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("then trace %d, %v", id, err)
	}
}

func TestEvents(t *testing.T) {
	s := private(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	const n = 30
	var pids []uint32
	for i := range n {
		pids = append(pids, sleeper(t))
		if i < 20 {
			ok(t, s.Trace(pids[i], &TaskInfo{TraceID: uint64(i)}))
		}
	}
	for _, pid := range pids[:10] { // before Events
		end(t, pid)
	}
	ok(t, s.events.Delete(uint64(5)))
	lost := programsExitEvent{State: programsEventStateSTATE_LOST, StoredTime: clock.Monotonic()}
	ok(t, s.events.Update(uint64(5), &lost, 0))
	seen := map[uint64]bool{}
	for ev, err := range s.Events(ctx) {
		if len(seen) == 0 {
			for _, pid := range pids[10:20] {
				end(t, pid)
			}
			for i, pid := range pids[20:] { // traced while Events runs
				ok(t, s.Trace(pid, &TaskInfo{TraceID: uint64(20 + i)}))
				end(t, pid)
			}
		}
		if seen[ev.TraceID] {
			t.Errorf("%d was yielded twice", ev.TraceID)
		}
		seen[ev.TraceID] = true
		if ev.TraceID == 5 {
			want(t, err, ErrLost)
		} else if err != nil || ev.Pid != pids[ev.TraceID] || ev.WaitStatus().Signal() != unix.SIGKILL {
			t.Errorf("%+v %v", ev, err)
		}
		if len(seen) == n {
			break
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d events", len(seen), n)
	}
	for _, tt := range []struct {
		age  time.Duration
		want int
	}{{0, 0}, {time.Hour, 0}, {time.Nanosecond, n}} {
		done, err := s.Collect(tt.age)
		ok(t, err)
		if done.Deleted != tt.want {
			t.Errorf("got collected %+v of age %v, want %d", done, tt.age, tt.want)
		}
	}
}
