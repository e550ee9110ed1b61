package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
)

const wholeLife = engine.EventFork | engine.EventExec | engine.EventExit

// forkExecExit checks everything about one short life.
func forkExecExit(t *test) {
	dir := t.TempDir()
	t.shortLives(func() []*shortLife {
		// A group of its own: else its parent would be the group's leader too.
		s := script().Call("chdir", unix.SYS_CHDIR, dir).Call("setpgid", unix.SYS_SETPGID, 0, 0)
		return []*shortLife{t.shortLife(s, t.program(7), "true", "this", "is", "nop!")}
	}, func(v *view, life *shortLife, ev *event) {
		q := ev.Process
		if got, want := string(q.Cmdline), "true\x00this\x00is\x00nop!\x00"; got != want {
			v.Errorf("cmdline is %q, want %q", got, want)
		}
		n := 0
		for range q.Args() {
			n++
		}
		if n != 4 {
			v.Errorf("%d arguments", n)
		}
		if q.Cwd != dir {
			v.Errorf("cwd is %q, want %q", q.Cwd, dir)
		}
		if int(q.PPID) != os.Getpid() {
			v.Errorf("ppid is %d, want %d", q.PPID, os.Getpid())
		}
		if q.Task.Exit.Code() != 7 {
			v.Errorf("exit code is %d", q.Task.Exit.Code())
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
	in := func(dir, path string) *shortLife {
		life := t.shortLife(script().Call("chdir", unix.SYS_CHDIR, dir), path, path)
		life.name = dir
		return life
	}
	t.shortLives(func() []*shortLife {
		return []*shortLife{in(filepath.Dir(file), "./"+filepath.Base(file)), in(links, "alink")}
	}, func(v *view, life *shortLife, ev *event) {
		if ev.Process.Filename != file {
			v.Errorf("filename is %q, want %q", ev.Process.Filename, file)
		}
		if ev.Process.Cwd != life.name {
			v.Errorf("cwd is %q, want %q", ev.Process.Cwd, life.name)
		}
	})
}

// shortLife is a program that ended, and when it began and was told to end.
type shortLife struct {
	*program
	wallBefore, wallAfter time.Time
	told                  uint64
	took                  time.Duration // until its end was seen
}

// shortLife has a process do the calls of s, execute the program at path and end.
func (t *test) shortLife(s *bare.Script, path string, argv ...string) *shortLife {
	life := &shortLife{wallBefore: time.Now()}
	life.program = t.startFile(s, path, argv)
	life.wallAfter, life.told = time.Now(), now()
	life.finish(t)
	life.took = life.age()
	return life
}

// shortLives runs programs and checks that the life of each is one event in which
// everything is right, and then what more checks.
func (t *test) shortLives(run func() []*shortLife, more func(*view, *shortLife, *event)) {
	t.watch()
	all := run()
	for slices.ContainsFunc(all, func(life *shortLife) bool { return t.tooSlow(life.took) }) {
		all = run()
	}
	t.settle()
	t.each(func(v *view) {
		for _, life := range all {
			p := life.proc
			ev := v.awaitEvent(p, "the first event", func(*event) bool { return true })
			if v.count(p, ^engine.Events(0)) != 1 || ev.Events != wholeLife {
				v.Errorf("the events are %s, want one with %s", v.history(p), wholeLife)
			}
			v.checkBirth(ev, p)
			v.check("FORK+EXEC+EXIT", ev.Process, life.truth, v.fields(engine.EventFork|engine.EventExec))
			v.checkExit(ev, p, true)
			if x := ev.Process.Task.Exit; x.Time < life.told {
				v.Errorf("exit time %d is before %d, when the process was told to end", x.Time, life.told)
			}
			// The wall clock may be adjusted while the test runs, but not by much.
			const slack = 200 * time.Millisecond
			if ev.Wall.Before(life.wallBefore.Add(-slack)) || ev.Wall.After(life.wallAfter.Add(slack)) {
				v.Errorf("wall time is %v, want it between %v and %v", ev.Wall, life.wallBefore, life.wallAfter)
			}
			if id, ok := ev.Process.Identity(); ok {
				if known := v.q.LookupIdentity(id); known == nil || int(known.PID) != p.PID {
					v.Errorf("identity %v is not found", id)
				}
			}
			more(v, life, ev)
		}
	})
}

// minAgg wants the three events of a short life one by one.
func minAgg(t *test) {
	t.watch()
	p := t.start(script(), []string{"min-agg"}, 3)
	t.finishAll(p)
	t.each(func(v *view) {
		var kinds []engine.Events
		for _, ev := range v.of(p.proc) {
			kinds = append(kinds, ev.Events)
		}
		if len(kinds) != 3 || kinds[0] != engine.EventFork || kinds[1] != engine.EventExec || kinds[2] != engine.EventExit {
			v.Errorf("events are %v, want FORK, EXEC, EXIT", kinds)
		}
		v.check("EXIT", v.exit(p.proc).Process, p.truth, v.fields(engine.EventExec))
	})
}

// execNonleader lets another thread than the leader execute.
func execNonleader(t *test) {
	t.watch()
	var all []*program
	for range 5 {
		p := t.execute(script(), t.program(4), []string{"nonleader", "x"}, func(s *bare.Script) *bare.Script {
			return script().Thread(s).Stop()
		})
		p.name = "another thread"
		all = append(all, p)
	}
	t.checkExecs(all...)
	t.settle()
	t.each(func(v *view) {
		for _, p := range all {
			if n := v.count(p.proc, engine.EventExit); n != 0 {
				v.Errorf("pid %d lives and has EXIT: %s", p.PID, v.history(p.proc))
			}
			if known := v.q.Lookup(uint32(p.PID)); known == nil || known.Exited {
				v.Errorf("pid %d lives and is not known, or marked as ended", p.PID)
			}
		}
	})
	t.finishAll(all...)
}

// liveAfterExec checks the state of a process that goes on living after exec,
// with much changed before it.
func liveAfterExec(t *test) {
	t.watch()
	dir := t.TempDir()
	s := script().
		Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, "before").
		Call("setpgid", unix.SYS_SETPGID, 0, 0).
		Call("chdir", unix.SYS_CHDIR, dir).
		Call("setresgid", unix.SYS_SETRESGID, 1002, 0, 1003).
		Call("setresuid", unix.SYS_SETRESUID, 1001, 0, 1001).
		Call("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME)
	p := t.execute(s, t.program(0), []string{"live", "after", "exec"}, inCopy)
	t.each(func(v *view) {
		exec := v.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		need := v.fields(engine.EventExec)
		v.check("EXEC", exec.Process, p.truth, need)
		// Both, the event and the table.
		if known := v.q.Lookup(uint32(p.PID)); known == nil {
			v.Errorf("process %d is not known", p.PID)
		} else {
			v.check("the table", known, p.truth, need)
		}
	})
	if p.truth.value[engine.FieldPGID] == p.truth.value[engine.FieldPPID] || strings.Contains(p.truth.comm, "before") {
		t.Fatalf("the scenario did not do its work: %+v", p.truth)
	}
	t.finishAll(p)
}
