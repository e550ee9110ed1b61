package main

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// exitsnoopBasic traces a process and queries it before, at and after its end.
func exitsnoopBasic(t *test) {
	s, _ := t.snoop(exitsnoop.Options{})
	p, g := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(7) })
	t.trace(s, p, 1)
	_, err := s.GetExitedEvent(1)
	t.wantError("before the end", err, exitsnoop.ErrNotEnded)
	t.wantError("traced twice", s.Trace(uint32(p.PID), &exitsnoop.TaskInfo{TraceID: 2}), exitsnoop.ErrAlreadyTraced)
	info, err := s.GetTracingTask(uint32(p.PID))
	t.must(err)
	if info.TraceID != 1 {
		t.Errorf("traced as %+v", info)
	}
	g.open()
	t.wantExit(s, p, 1)
	t.wantStats(s, 1, 0, 0, 1)
	_, err = s.GetTracingTask(uint32(p.PID))
	t.wantError("tracing after the end", err, exitsnoop.ErrNotTraced)
	t.must(s.DeleteExitedEvent(1))
	_, err = s.GetExitedEvent(1)
	t.wantError("after it was deleted", err, exitsnoop.ErrNotTraced)
	t.wantError("tracing what is gone", s.Trace(uint32(p.PID), &exitsnoop.TaskInfo{TraceID: 1}), exitsnoop.ErrNoProcess)

	// The same with Events and an id that exitsnoop chose.
	q, g := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(9) })
	id, err := s.TraceProcess(uint32(q.PID))
	t.must(err)
	g.open()
	ctx, cancel := context.WithTimeout(context.Background(), t.Limit/3)
	defer cancel()
	n := 0
	for ev, err := range s.Events(ctx) {
		t.must(err)
		n++
		t.reapBlind(q)
		t.sameExit(&ev.ExitStatus, q)
		if ev.TraceID != id {
			t.Errorf("trace id %d, want %d", ev.TraceID, id)
		}
		break
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

// exitsnoopSignal ends processes with signals, without core files.
func exitsnoopSignal(t *test) {
	s, _ := t.snoop(exitsnoop.Options{})
	for i, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGSEGV, unix.SIGHUP, unix.Signal(40)} {
		p, _ := t.standing(func(s *bare.Script) *bare.Script { return s })
		t.must(unix.Prlimit(p.PID, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
		t.trace(s, p, uint64(i))
		unix.Kill(p.PID, sig)
		t.wantExit(s, p, uint64(i))
		if !p.status.Signaled() || p.status.Signal() != sig {
			t.Fatalf("the scenario did not do its work: wait status %#x", p.status)
		}
	}
}

// exitsnoopCore ends a process with a signal that dumps core.
func exitsnoopCore(t *test) {
	s, _ := t.snoop(exitsnoop.Options{})
	limit := []unix.Rlimit{{Cur: 64 << 20, Max: 64 << 20}}
	g := t.gate("nothing")
	p := t.spawn(script().Call("chdir", unix.SYS_CHDIR, t.TempDir()).
		Call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, limit, nil).WaitFor(g.r), barefork{})
	t.asleep(p)
	t.trace(s, p, 1)
	unix.Kill(p.PID, unix.SIGSEGV)
	t.wantExit(s, p, 1)
	if !p.status.CoreDump() {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		t.Skipf("the kernel wrote no core: kernel.core_pattern is %q", strings.TrimSpace(string(pattern)))
	}
}

// exitsnoopLeaderFirst ends leaders while another thread lives on.
func exitsnoopLeaderFirst(t *test) {
	s, _ := t.snoop(exitsnoop.Options{})
	for i, c := range []struct {
		name   string
		last   func(*bare.Script) *bare.Script
		signal bool
	}{
		{name: "exit_group by the other", last: func(s *bare.Script) *bare.Script { return s.Exit(7) }},
		{name: "exit of both", last: func(s *bare.Script) *bare.Script { return s.ExitThread(5) }},
		{name: "signal to the other", last: func(s *bare.Script) *bare.Script { return s.Stop() }, signal: true},
	} {
		// Tracing begins before or after the leader's end.
		for j, before := range []bool{true, false} {
			id := uint64(2*i + j)
			leader, other := t.gate("the leader to end"), t.gate("the other thread to end")
			p := t.spawn(script().Thread(c.last(script().WaitFor(other.r))).WaitFor(leader.r).ExitThread(3), barefork{})
			if before {
				t.trace(s, p, id)
			}
			leader.open()
			t.Waiting("the leader to end")
			for end := time.Now().Add(t.Limit / 3); !leaderIsZombie(p.PID); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: the leader does not end", c.name)
				}
			}
			if !before {
				t.trace(s, p, id)
			}
			_, err := s.GetExitedEvent(id)
			t.wantError(c.name+": while a thread lives", err, exitsnoop.ErrNotEnded)
			other.open()
			if c.signal {
				unix.Kill(p.PID, unix.SIGTERM)
			}
			t.wantExit(s, p, id)
		}
	}
	t.wantStats(s, 6, 0, 0, 6)
}
