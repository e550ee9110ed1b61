package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// exitTGID: a thread that is not the leader ends the group.
func exitTGID(t *test) {
	t.watch()
	var all []*proc
	for i := range 8 {
		p := t.spawn(script().Thread(script().Exit(20+i)).Stop(), barefork{})
		t.reap(p)
		if p.status.ExitStatus() != 20+i {
			t.Fatalf("the scenario did not do its work: wait status %#x", p.status)
		}
		all = append(all, p)
	}
	t.wantLives(0, all...)
}

// stopped starts a process that does the calls and then waits for a signal.
func (t *test) stopped(s *bare.Script) *proc {
	ready := t.gate("the process to be ready")
	p := t.spawn(s.Tell(ready.w).Stop(), barefork{})
	ready.pass()
	return p
}

// noCore appends a limit of 0 for core files.
func noCore(s *bare.Script) *bare.Script {
	return s.Call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{{}}, nil)
}

// exitSignal ends processes with signals, without core files.
func exitSignal(t *test) {
	t.watch()
	var all []*proc
	signals := []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGSEGV, unix.SIGHUP, unix.Signal(40)}
	for _, sig := range signals {
		p := t.stopped(noCore(script()))
		unix.Kill(p.PID, sig)
		t.reap(p)
		if !p.status.Signaled() || p.status.Signal() != sig {
			t.Fatalf("the scenario did not do its work: wait status %#x", p.status)
		}
		all = append(all, p)
	}
	t.wantLives(0, all...)
}

// exitCore ends a process with a signal that dumps core.
func exitCore(t *test) {
	t.watch()
	limit := []unix.Rlimit{{Cur: 64 << 20, Max: 64 << 20}}
	s := script().Call("chdir", unix.SYS_CHDIR, t.TempDir()).
		Call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, limit, nil)
	p := t.stopped(s)
	unix.Kill(p.PID, unix.SIGSEGV)
	t.reap(p)
	if !p.status.CoreDump() {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		t.Skipf("the kernel wrote no core: kernel.core_pattern is %q", strings.TrimSpace(string(pattern)))
	}
	t.wantLives(0, p)
	t.each(func(v *view) {
		if ok, _ := v.reported(engine.KindCoreDump); ok {
			if n := v.count(p, engine.EventCoreDump); n != 1 {
				v.Errorf("%d events with CORE_DUMP: %s", n, v.history(p))
			}
		}
	})
}

// leaderExitsFirst ends leaders while other threads live on.
func leaderExitsFirst(t *test) {
	t.watch()
	cases := []struct {
		name string
		last func(*bare.Script) *bare.Script
		// The proc connector reports the status of each thread and not that of
		// the group. Where they differ, the last one's is that of the group since
		// Linux 6.0; before, it depends on how it ended, which is not reported.
		differ bool
		// A thread that ended with 0 as the last may also have been overtaken
		// by the end of the group.
		zero bool
		p    *proc
		g    *gate
	}{
		{name: "exit_group by the other", last: func(s *bare.Script) *bare.Script { return s.Exit(7) }, differ: true},
		{name: "exit of both, the same status", last: func(s *bare.Script) *bare.Script { return s.ExitThread(3) }},
		{name: "exit of both, different statuses", last: func(s *bare.Script) *bare.Script { return s.ExitThread(5) }, differ: true},
		{name: "exit of both, the other's is 0", last: func(s *bare.Script) *bare.Script { return s.ExitThread(0) }, zero: true},
		{name: "signal to the other", last: func(s *bare.Script) *bare.Script { return s.Stop() }},
	}
	for i := range cases {
		c := &cases[i]
		c.g = t.gate("the other thread to end")
		c.p = t.spawn(script().Thread(c.last(script().WaitFor(c.g.r))).ExitThread(3), barefork{})
		t.await("the leader to end", func() bool { return leaderIsZombie(c.p.PID) })
	}
	for _, c := range cases {
		t.awaitEvent(c.p, "FORK", has(engine.EventFork))
	}
	t.settle()
	t.each(func(v *view) {
		for _, c := range cases {
			if n := v.count(c.p, engine.EventExit); n != 0 {
				v.Errorf("%s: EXIT while a thread lives: %s", c.name, v.history(c.p))
			}
			if known := v.q.Lookup(uint32(c.p.PID)); known == nil || known.Exited {
				v.Errorf("%s: not known, or marked as ended, while a thread lives", c.name)
			}
		}
	})
	for _, c := range cases {
		c.g.open()
		if strings.HasPrefix(c.name, "signal") {
			unix.Kill(c.p.PID, unix.SIGTERM)
		}
		t.reap(c.p)
		t.Logf("%s: wait status %#x", c.name, c.p.status)
	}
	t.each(func(v *view) {
		for _, c := range cases {
			v.checkExit(v.exit(c.p), c.p, v.Backend != "cnproc" || !c.zero && !(c.differ && kernelMajor(t) < 6))
		}
	})
	t.settle()
	t.each(func(v *view) {
		for _, c := range cases {
			if n := v.count(c.p, engine.EventExit); n != 1 {
				v.Errorf("%s: %d EXITs: %s", c.name, n, v.history(c.p))
			}
		}
	})
}

// kernelMajor is the first number of the kernel's release.
func kernelMajor(t *test) int {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatalf("uname: %v", err)
	}
	major, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		t.Fatalf("the kernel's release is %q", unix.ByteSliceToString(u.Release[:]))
	}
	return n
}

// leaderIsZombie tells by /proc whether the leader has ended.
func leaderIsZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(after, "Z")
}
