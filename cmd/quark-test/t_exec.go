package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	bare "github.com/quark-linux/quark/internal/barefork"

	"github.com/quark-linux/quark/engine"
)

const wholeLife = engine.EventFork | engine.EventExec | engine.EventExit

// forkExecExit checks everything about one short life.
func forkExecExit(t *test) {
	dir := t.TempDir()
	t.shortLife(func() *program {
		// A group of its own: else its parent would be the group's leader too.
		s := script().Call("chdir", unix.SYS_CHDIR, dir).Call("setpgid", unix.SYS_SETPGID, 0, 0)
		return t.start(s, []string{"true", "this", "is", "nop!"}, 7)
	}, func(p *program, ev *quark.Event) {
		q := ev.Process
		if got, want := string(q.Cmdline), "true\x00this\x00is\x00nop!\x00"; got != want {
			t.Errorf("cmdline is %q, want %q", got, want)
		}
		n := 0
		for range q.Args() {
			n++
		}
		if n != 4 {
			t.Errorf("%d arguments", n)
		}
		if q.Cwd != dir {
			t.Errorf("cwd is %q, want %q", q.Cwd, dir)
		}
		if int(q.PPID) != os.Getpid() {
			t.Errorf("ppid is %d, want %d", q.PPID, os.Getpid())
		}
		if q.Task.Exit.Code() != 7 {
			t.Errorf("exit code is %d", q.Task.Exit.Code())
		}
	})
}

// forkExecExitRel executes by relative paths, one of them a link.
func forkExecExitRel(t *test) {
	file := t.program(0)
	links := t.TempDir()
	if err := os.Symlink(file, filepath.Join(links, "alink")); err != nil {
		t.Fatalf("%v", err)
	}
	for _, c := range []struct{ dir, path string }{
		{filepath.Dir(file), "./" + filepath.Base(file)},
		{links, "alink"},
	} {
		t.shortLife(func() *program {
			return t.startFile(script().Call("chdir", unix.SYS_CHDIR, c.dir), c.path, []string{c.path})
		}, func(p *program, ev *quark.Event) {
			if ev.Process.Filename != file {
				t.Errorf("filename is %q, want %q", ev.Process.Filename, file)
			}
			if ev.Process.Cwd != c.dir {
				t.Errorf("cwd is %q, want %q", ev.Process.Cwd, c.dir)
			}
		})
	}
}

// shortLife runs a program and checks that its life is one event in which
// everything is right, and then what more checks.
func (t *test) shortLife(start func() *program, more func(*program, *quark.Event)) {
	if t.q == nil {
		t.openToJoin()
	}
	for {
		wallBefore := time.Now()
		p := start()
		wallAfter := time.Now()
		told := now()
		p.finish(t)
		if t.tooSlow(p.proc) {
			continue
		}
		ev := t.awaitEvent(p.proc, "the first event", func(*quark.Event) bool { return true })
		t.settle()
		if t.count(p.proc, ^engine.Events(0)) != 1 || ev.Events != wholeLife {
			t.Errorf("the events are %s, want one with %s", t.history(p.proc), wholeLife)
		}
		t.checkBirth(ev, p.proc)
		t.check("FORK+EXEC+EXIT", ev.Process, p.truth, t.fields(engine.EventFork|engine.EventExec))
		t.checkExit(ev, p.proc, true)
		if x := ev.Process.Task.Exit; x.Time < told {
			t.Errorf("exit time %d is before %d, when the process was told to end", x.Time, told)
		}
		// The wall clock may be adjusted while the test runs, but not by much.
		const slack = 200 * time.Millisecond
		if ev.Wall.Before(wallBefore.Add(-slack)) || ev.Wall.After(wallAfter.Add(slack)) {
			t.Errorf("wall time is %v, want it between %v and %v", ev.Wall, wallBefore, wallAfter)
		}
		if id, ok := ev.Process.Identity(); ok {
			if known := t.q.LookupIdentity(id); known == nil || int(known.PID) != p.PID {
				t.Errorf("identity %v is not found", id)
			}
		}
		more(p, ev)
		return
	}
}

// minAgg wants the three events of a short life one by one.
func minAgg(t *test) {
	t.useShared(singly)
	p := t.start(script(), []string{"min-agg"}, 3)
	p.finish(t)
	exit := t.wantLife(p.proc, 1)
	var kinds []engine.Events
	for _, ev := range t.of(p.proc) {
		kinds = append(kinds, ev.Events)
	}
	if len(kinds) != 3 || kinds[0] != engine.EventFork || kinds[1] != engine.EventExec || kinds[2] != engine.EventExit {
		t.Errorf("events are %v, want FORK, EXEC, EXIT", kinds)
	}
	t.check("EXIT", exit.Process, p.truth, t.fields(engine.EventExec))
}

// execNonleader lets another thread than the leader execute.
func execNonleader(t *test) {
	t.listen()
	var all []*program
	for range 5 {
		all = append(all, t.execute(script(), t.program(4), []string{"nonleader", "x"}, func(s *bare.Script) *bare.Script {
			return script().Thread(s).Stop()
		}))
	}
	for _, p := range all {
		exec := t.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		t.check("EXEC", exec.Process, p.truth, t.fields(engine.EventExec))
	}
	t.settle()
	for _, p := range all {
		if n := t.count(p.proc, engine.EventExit); n != 0 {
			t.Errorf("pid %d lives and has EXIT: %s", p.PID, t.history(p.proc))
		}
		if known := t.q.Lookup(uint32(p.PID)); known == nil || known.Exited {
			t.Errorf("pid %d lives and is not known, or marked as ended", p.PID)
		}
	}
	t.finishAll(all...)
}

// liveAfterExec checks the state of a process that goes on living after exec,
// with much changed before it.
func liveAfterExec(t *test) {
	q := t.listen()
	dir := t.TempDir()
	s := script().
		Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, "before").
		Call("setpgid", unix.SYS_SETPGID, 0, 0).
		Call("chdir", unix.SYS_CHDIR, dir).
		Call("setresgid", unix.SYS_SETRESGID, 1002, 0, 1003).
		Call("setresuid", unix.SYS_SETRESUID, 1001, 0, 1001).
		Call("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME)
	p := t.execute(s, t.program(0), []string{"live", "after", "exec"}, inCopy)
	exec := t.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
	need := t.fields(engine.EventExec)
	t.check("EXEC", exec.Process, p.truth, need)
	// Both, the event and the table.
	if known := q.Lookup(uint32(p.PID)); known == nil {
		t.Errorf("process %d is not known", p.PID)
	} else {
		t.check("the table", known, p.truth, need)
	}
	if p.truth.value[engine.FieldPGID] == p.truth.value[engine.FieldPPID] || strings.Contains(p.truth.comm, "before") {
		t.Fatalf("the scenario did not do its work: %+v", p.truth)
	}
	p.finish(t)
	t.wantLife(p.proc, 1)
}
