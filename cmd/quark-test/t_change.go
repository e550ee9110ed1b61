package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

func itoa(n int) string { return strconv.Itoa(n) }

// comm renames a process, which then executes.
func comm(t *test) {
	t.watch()
	t.needKind(engine.KindComm)
	first, second := t.gate("the process to be told to rename itself"), t.gate("the process to be told to execute")
	ready := t.gate("the process to have renamed itself")
	end, running := t.gate("the end"), t.gate("the executed program to run")
	s := script().WaitFor(first.r).Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, "quark-comm-of-twenty").Tell(ready.w).WaitFor(second.r)
	p := t.spawn(attach(s, end, running).Exec(t.program(0), []string{"comm"}, nil), barefork{Share: true})
	// FORK would take the new comm in.
	t.awaitEvent(p, "FORK", has(engine.EventFork))
	first.open()
	ready.pass()
	want := t.truth(p.PID)
	if want.comm != "quark-comm-of-t" {
		t.Fatalf("the scenario did not do its work: comm is %q", want.comm)
	}
	t.each(func(v *view) {
		ev := v.awaitEvent(p, "SETPROCTITLE", has(engine.EventSetProcTitle))
		if ev.Events != engine.EventSetProcTitle {
			v.Errorf("events are %s", ev.Events)
		}
		v.check("SETPROCTITLE", ev.Process, want, v.fields(engine.EventSetProcTitle))
		if known := v.q.Lookup(uint32(p.PID)); known == nil || known.Comm != want.comm {
			v.Errorf("the table has another comm")
		}
	})

	second.open()
	t.awaitRunning(p, running)
	want = t.truth(p.PID)
	t.each(func(v *view) {
		exec := v.awaitEvent(p, "EXEC", has(engine.EventExec))
		v.check("EXEC", exec.Process, want, v.fields(engine.EventExec))
	})
	end.open()
	t.reap(p)
	t.wantLives(1, p)
	t.each(func(v *view) {
		if n := v.count(p, engine.EventSetProcTitle); n != 1 {
			v.Errorf("%d SETPROCTITLEs, exec must not make one: %s", n, v.history(p))
		}
	})
}

// idChange changes all ids before exec, and in a process that does not execute.
func idChange(t *test) {
	t.watch()
	t.needKind(engine.KindIDChange)
	const all = engine.ChangedSID | engine.ChangedUID | engine.ChangedGID

	// One that executes: the effective ids stay, as the new program must be executable.
	// And one that changes all its ids and lives on.
	end, ready := t.gate("the end"), t.gate("the ids to be changed")
	var p *program
	var r *proc
	for {
		p = t.execute(script().
			Call("setresgid", unix.SYS_SETRESGID, 1002, 0, 1003).
			Call("setresuid", unix.SYS_SETRESUID, 1001, 0, 1004).
			Call("setsid", unix.SYS_SETSID), t.program(0), []string{"ids"}, inCopy)
		if t.tooSlow(p.age()) {
			p.finish(t)
			continue
		}
		r = t.spawn(script().
			Call("setresgid", unix.SYS_SETRESGID, 2001, 2002, 2003).
			Call("setresuid", unix.SYS_SETRESUID, 2004, 2005, 2006).
			Call("setsid", unix.SYS_SETSID).
			Tell(ready.w).WaitFor(end.r).Exit(0), barefork{})
		ready.pass()
		if !t.tooSlow(r.age()) {
			break
		}
		p.finish(t)
		end.open()
		t.reap(r)
	}
	cases := t.singleChanges()

	t.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
	p.finish(t)
	want := t.truth(r.PID)
	t.each(func(v *view) {
		change := v.awaitEvent(p.proc, "ID_CHANGE", has(engine.EventIDChange))
		if change.Events != engine.EventFork|engine.EventIDChange {
			v.Errorf("events are %s, want FORK+ID_CHANGE: %s", change.Events, v.history(p.proc))
		}
		if change.IDChange != all {
			v.Errorf("changed are %s, want %s", change.IDChange, all)
		}
		if got := valueOf(change.Process, engine.FieldUIDs); change.Process.Known.Has(engine.FieldUIDs) && got != "1001 0" {
			v.Errorf("uid and euid are %s after the change", got)
		}

		change = v.awaitEvent(r, "ID_CHANGE", has(engine.EventIDChange))
		if change.IDChange != all {
			v.Errorf("changed are %s, want %s", change.IDChange, all)
		}
		v.check("ID_CHANGE", change.Process, want, v.fields(engine.EventIDChange))
	})
	end.open()
	t.reap(r)

	t.checkSingleChanges(cases, r)
	t.each(func(v *view) {
		v.checkLife(p.proc, 1) // which ended before the others
		v.check("EXEC or EXIT", v.exit(p.proc).Process, p.truth, v.fields(engine.EventExec))
	})
}

// singleChange is a process that changes one id, once its FORK has been delivered.
type singleChange struct {
	name             string
	number           uintptr
	args             []any
	want             engine.IDChange
	p                *proc
	truth            *facts
	start, done, end *gate
}

// singleChanges starts such processes.
func (t *test) singleChanges() []singleChange {
	cases := []singleChange{
		{name: "setuid", number: unix.SYS_SETUID, args: []any{3001}, want: engine.ChangedUID},
		{name: "setgid", number: unix.SYS_SETGID, args: []any{3002}, want: engine.ChangedGID},
		{name: "setreuid", number: unix.SYS_SETREUID, args: []any{3003, 3004}, want: engine.ChangedUID},
		{name: "setregid", number: unix.SYS_SETREGID, args: []any{3005, 3006}, want: engine.ChangedGID},
		{name: "setresuid", number: unix.SYS_SETRESUID, args: []any{3007, -1, -1}, want: engine.ChangedUID},
		{name: "setresgid", number: unix.SYS_SETRESGID, args: []any{-1, 3008, -1}, want: engine.ChangedGID},
		{name: "setsid", number: unix.SYS_SETSID, want: engine.ChangedSID},
		{name: "setuid to what it is", number: unix.SYS_SETUID, args: []any{0}},
		{name: "setgid to what it is", number: unix.SYS_SETGID, args: []any{0}},
	}
	for i := range cases {
		c := &cases[i]
		c.start, c.done, c.end = t.gate("the ids to be changed"), t.gate(c.name), t.gate("the end")
		c.p = t.spawn(script().WaitFor(c.start.r).Call(c.name, c.number, c.args...).Tell(c.done.w).WaitFor(c.end.r).Exit(0), barefork{})
	}
	return cases
}

// checkSingleChanges also checks the lives of others that did not execute.
func (t *test) checkSingleChanges(cases []singleChange, others ...*proc) {
	for i := range cases {
		c := &cases[i]
		t.awaitEvent(c.p, "FORK", has(engine.EventFork))
		c.start.open()
		c.done.pass()
		c.truth = t.truth(c.p.PID)
	}
	procs := others
	for _, c := range cases {
		if c.want != 0 {
			t.each(func(v *view) {
				ev := v.awaitEvent(c.p, "ID_CHANGE of "+c.name, has(engine.EventIDChange))
				if ev.Events != engine.EventIDChange || ev.IDChange != c.want {
					v.Errorf("%s: %s, changed are %s, want %s", c.name, ev.Events, ev.IDChange, c.want)
				}
				v.check(c.name, ev.Process, c.truth, v.changedFields(c.want))
			})
		}
		c.end.open()
		t.reap(c.p)
		procs = append(procs, c.p)
	}
	t.wantLives(0, procs...)
	t.each(func(v *view) {
		for _, c := range cases {
			if n := v.count(c.p, engine.EventIDChange); c.want == 0 && n != 0 {
				v.Errorf("%s: reported as a change: %s", c.name, v.history(c.p))
			}
		}
	})
}

// changedFields are those that a change of ids brings by the capability table,
// as far as it is about them.
func (v *view) changedFields(c engine.IDChange) (s engine.Fields) {
	if c&engine.ChangedUID != 0 {
		s |= engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldSUID | 1<<engine.FieldCaps)
	}
	if c&engine.ChangedGID != 0 {
		s |= engine.Fields(1<<engine.FieldGIDs | 1<<engine.FieldSGID)
	}
	if c&engine.ChangedSID != 0 {
		s |= engine.Fields(1<<engine.FieldSID | 1<<engine.FieldPGID)
	}
	return s & v.fields(engine.EventIDChange)
}

// namespace executes in namespaces of its own.
func namespace(t *test) {
	t.watch()
	var have uintptr
	for name, flag := range map[string]uintptr{"uts": unix.CLONE_NEWUTS, "ipc": unix.CLONE_NEWIPC, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET} {
		if _, err := os.Lstat("/proc/self/ns/" + name); errors.Is(err, os.ErrNotExist) {
			t.Logf("this kernel has no %s namespaces", name)
			continue
		}
		have |= flag
	}
	own := t.truth(os.Getpid())
	p := t.start(script().Call("unshare", unix.SYS_UNSHARE, have), []string{"namespaces"}, 0)
	for f := engine.FieldUTSNS; f <= engine.FieldNetNS; f++ {
		if p.truth.value[f] == own.value[f] && p.truth.value[f] != "" {
			t.Errorf("%s: the scenario did not do its work", f)
		}
	}
	t.wantExecs(p)
	t.each(func(v *view) {
		v.check("EXIT", v.exit(p.proc).Process, p.truth, v.fields(engine.EventExec))
	})
}

// cgroup puts a process into a cgroup of its own.
func cgroup(t *test) {
	t.watch()
	t.each(func(v *view) {
		if c := v.q.Capabilities().Fields[engine.FieldCgroup]; c.Origin == engine.OriginNone {
			v.Skipf("%s does not report cgroups here: %s", v.Backend, c.Via)
		}
	})
	var dir string
	var fd int
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var s unix.Statfs_t
		if unix.Statfs(root, &s) != nil || s.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir = filepath.Join(root, "quark-test-"+itoa(os.Getpid()), "a b")
	}
	if dir == "" {
		t.Skipf("no cgroup v2 is mounted on /sys/fs/cgroup")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		for _, d := range []string{dir, filepath.Dir(dir)} {
			if err := unix.Rmdir(d); err != nil {
				t.Errorf("remove cgroup %s: %v", d, err)
			}
		}
	})
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open cgroup: %v", err)
	}
	defer unix.Close(fd)
	end := t.gate("the end")
	p := t.spawn(script().WaitFor(end.r).Exit(0), barefork{Cgroup: fd})
	want := t.truth(p.PID)
	if filepath.Base(want.cgroup) != "a b" {
		t.Fatalf("the scenario did not do its work: cgroup is %q", want.cgroup)
	}
	t.each(func(v *view) {
		fork := v.awaitEvent(p, "FORK", has(engine.EventFork))
		v.check("FORK", fork.Process, want, engine.FieldCgroup.Set())
	})
	end.open()
	t.reap(p)
	t.wantLives(0, p)
}
