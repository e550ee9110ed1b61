package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// leading returns an event of a process that started at 1000 times its pid, and executes or has
// executed a file.
func leading(kind engine.Kind, pid, ppid, sid uint32, at uint64, file string) enginetest.Raw {
	r := started(raw(kind, pid, at), 1000*uint64(pid))
	r.Task.PPID, r.Task.SID = ppid, sid
	r.Task.Known |= engine.SetOf(engine.FieldPPID, engine.FieldSID, engine.FieldTTY)
	if kind == fork {
		r.Creator = ppid
	}
	if file != "" {
		r.Exe = []byte(file)
	}
	return r
}

// learn adds processes from /proc, in that order.
func (r *rig) learn(processes ...enginetest.Raw) {
	for _, p := range processes {
		var seen engine.RawEvent
		p.Fill(&seen)
		r.Learn(&seen)
	}
}

// entryOf returns the entry leader of a process as text, "?" if it is unknown, with "*" if it is
// cached.
func entryOf(p *engine.Process) string {
	if p == nil || !p.Known.Has(engine.FieldEntryLeader) {
		return "?"
	}
	text := fmt.Sprintf("%s %d of %d", p.EntryType, p.EntryLeader.PID, p.EntryLeader.Start)
	if p.Cached.Has(engine.FieldEntryLeader) {
		text += "*"
	}
	return text
}

// Entry leaders of processes from /proc, for any order of parents and children.
func TestEntryLeadersOfTheSnapshot(t *testing.T) {
	r := newRig(t, engine.Options{})
	onTTY := func(p enginetest.Raw, major, minor uint32) enginetest.Raw {
		p.Task.TTY = engine.TTY{Major: major, Minor: minor}
		return p
	}
	bare := raw(fork, 40, 0)
	bare.Task = engine.Task{Known: engine.FieldPPID.Set(), PPID: 11}
	r.learn(
		bare,
		leading(fork, 12, 30, 30, 0, "/bin/make"), // the parent has the higher pid
		leading(fork, 30, 11, 30, 0, "/bin/bash"),
		leading(fork, 11, 10, 10, 0, "/usr/sbin/sshd"),
		leading(fork, 10, 1, 10, 0, "/usr/sbin/sshd"),
		leading(fork, 1, 0, 1, 0, "/sbin/init"),
		leading(fork, 2, 0, 0, 0, ""),
		leading(fork, 5, 2, 0, 0, ""),
		onTTY(leading(fork, 13, 1, 13, 0, "/bin/login"), 4, 1),
		onTTY(leading(fork, 14, 1, 14, 0, "/sbin/agetty"), 4, 1),
		onTTY(leading(fork, 15, 1, 15, 0, "/sbin/agetty"), 4, 64),
		leading(fork, 16, 1, 16, 0, "/usr/bin/containerd-shim-runc-v2"),
		leading(fork, 17, 16, 17, 0, "/pause"),
		leading(fork, 18, 16, 18, 0, "/bin/nginx"),
		leading(fork, 19, 18, 18, 0, "/bin/nginx"),
		onTTY(leading(fork, 20, 21, 20, 0, "/bin/sh"), 136, 3),
		leading(fork, 21, 1, 21, 0, "/usr/bin/ssm-session-worker"),
		leading(fork, 22, 99, 22, 0, "/bin/sh"), // the parent is not in the table
		leading(fork, 23, 30, 23, 0, ""),        // its program is unknown
	)
	got := make(map[uint32]string)
	for p := range r.Processes() {
		got[p.PID] = entryOf(p)
	}
	want := map[uint32]string{
		1: "init 1 of 1000", 2: "kthread 2 of 2000", 5: "kthread 2 of 2000", 10: "init 1 of 1000*", 11: "init 1 of 1000*",
		12: "sshd 30 of 30000*", 30: "sshd 30 of 30000*", 13: "terminal 13 of 13000*", 14: "init 1 of 1000*",
		15: "terminal 15 of 15000*", 16: "init 1 of 1000*", 17: "init 1 of 1000*", 18: "container 18 of 18000*",
		19: "container 18 of 18000*", 20: "ssm 20 of 20000*", 21: "init 1 of 1000*", 22: "?", 23: "?", 40: "?",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Processes of a session of sshd keep their entry leader when their ancestors have ended, have left
// the table, and their pids are reused.
func TestEntryLeaderStays(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: time.Millisecond, Matrix: new(engine.Matrix)})
	r.learn(leading(fork, 1, 0, 1, 0, "/sbin/init"), leading(fork, 10, 1, 10, 0, "/usr/sbin/sshd"))
	ended := func(pid uint32, at uint64) enginetest.Raw { return exited(leading(exit, pid, 10, 30, at, ""), 0) }
	setsid := leading(engine.KindIDChange, 30, 10, 30, 2, "")
	setsid.IDChange = engine.ChangedSID
	again := leading(fork, 30, 1, 1, 9, "") // the pid of the leader
	again.Task.Start = 77
	for i, step := range []struct {
		event enginetest.Raw
		want  string
	}{
		{leading(fork, 30, 10, 10, 1, ""), "init 1 of 1000*"},
		{setsid, "init 1 of 1000*"},
		{leading(exec, 30, 10, 30, 3, "/bin/bash"), "sshd 30 of 30000"},
		{leading(fork, 31, 30, 30, 4, ""), "sshd 30 of 30000"},
		{leading(fork, 32, 31, 30, 5, ""), "sshd 30 of 30000"},
		{ended(30, 6), "sshd 30 of 30000"},
		{ended(31, 7), "sshd 30 of 30000"},
		{leading(exec, 32, 1, 30, 8, "/bin/daemon"), "sshd 30 of 30000"},
		{again, "init 1 of 1000"},
		{leading(exec, 32, 1, 30, 10, "/bin/daemon"), "sshd 30 of 30000"},
		{leading(fork, 33, 32, 30, 11, ""), "sshd 30 of 30000"},
		// A session leader that init has adopted.
		{leading(exec, 33, 1, 33, 12, "/bin/other"), "sshd 30 of 30000"},
		// Not decided: neither sshd's child nor its program is known.
		{leading(exec, 33, 99, 33, 13, "/bin/bash"), "?"},
		{leading(fork, 34, 33, 33, 14, ""), "?"},
		{leading(exec, 34, 10, 34, 15, ""), "?"},
		{leading(exec, 34, 10, 34, 16, "/bin/bash"), "sshd 34 of 34000"},
	} {
		step.event.Time = r.clock.Now()
		r.src.Push(step.event)
		if p := r.onlyEvent(t).Process; entryOf(p) != step.want {
			t.Errorf("step %d: %d has %s, want %s", i, p.PID, entryOf(p), step.want)
		}
	}
	if p := r.LookupIdentity(engine.Identity{PID: 30, Start: 30000}); p != nil {
		t.Error("the leader is still in the table")
	}
	p := r.Lookup(32)
	if ancestors, whole := r.Ancestors(p); len(ancestors) != 0 || whole {
		t.Errorf("got %d removed ancestors, whole %v", len(ancestors), whole)
	}
	now := r.clock.Now()
	r.src.Push(enginetest.Raw{Kind: engine.KindGap, Time: now, Gap: engine.Gap{From: now, To: now + 1, CPU: engine.AllCPUs}})
	r.onlyEvent(t)
	if p := r.Lookup(34); entryOf(p) != "sshd 34 of 34000*" {
		t.Errorf("after a gap %s", entryOf(p))
	}
}

// A child that was forked before its parent became an entry leader does not get this leader,
// although the parent's joined events were delivered first. A child whose FORK comes late does not
// get it either.
func TestEntryLeaderOfBefore(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.learn(leading(fork, 1, 0, 1, 0, "/sbin/init"), leading(fork, 10, 1, 10, 0, "/usr/sbin/sshd"))
	r.src.Push(leading(fork, 30, 10, 10, 1, ""), leading(fork, 31, 30, 10, 2, ""), leading(exec, 30, 10, 30, 3, "/bin/bash"))
	if got := r.drain(t); strings.Join(got, " ") != "30 FORK+EXEC 31 FORK" || entryOf(r.Lookup(30)) != "sshd 30 of 30000" {
		t.Errorf("child: got %q, parent %s", got, entryOf(r.Lookup(30)))
	}
	if got := entryOf(r.Lookup(31)); got != "?" {
		t.Errorf("child forked before the exec: got %s", got)
	}
	r.src.Push(leading(exec, 32, 30, 32, 9, "/bin/bash"))
	r.drain(t)
	r.src.Push(leading(fork, 32, 10, 10, 5, ""))
	r.drain(t)
	if got := entryOf(r.Lookup(32)); got != "?" {
		t.Errorf("child with a late FORK: got %s", got)
	}
}

// A session leader in a container, whose parent is not in the container, is an entry leader, except
// a program that only waits there.
func TestEntryLeaderOfContainer(t *testing.T) {
	r := newRig(t, engine.Options{Matrix: new(engine.Matrix)}, engine.FieldCgroup)
	in := func(cgroup string, p enginetest.Raw) enginetest.Raw {
		p.Cgroup = []byte(cgroup)
		return p
	}
	r.learn(in("/", leading(fork, 1, 0, 1, 0, "/sbin/init")), in("/lxc.monitor.a", leading(fork, 10, 1, 10, 0, "/usr/bin/lxc-start")),
		in("/lxc.payload.a/init.scope", leading(fork, 11, 10, 11, 0, "/sbin/init")), in("/lxc.payload.a/x", leading(fork, 12, 11, 12, 0, "/bin/cron")))
	for pid, want := range map[uint32]string{10: "init 1 of 1000*", 11: "container 11 of 11000*", 12: "container 11 of 11000*"} {
		if got := entryOf(r.Lookup(pid)); got != want {
			t.Errorf("before: %d has %s, want %s", pid, got, want)
		}
	}
	cut := in("x/y", leading(exec, 24, 10, 24, 9, "/bin/sh"))
	cut.Task.Truncated = engine.FieldCgroup.Set()
	for i, step := range []struct {
		event enginetest.Raw
		want  string
	}{
		{in("/lxc.payload.b", leading(exec, 20, 10, 20, 1, "/sbin/init")), "container 20 of 20000*"},
		// Its birth was not seen.
		{in("/lxc.payload.b/x", leading(exec, 21, 20, 21, 2, "/bin/sh")), "?"},
		{in("/lxc.payload.b/x", leading(fork, 22, 20, 20, 3, "")), "container 20 of 20000*"},
		{in("/lxc.payload.b/x", leading(exec, 22, 20, 22, 4, "/bin/sh")), "container 20 of 20000*"},
		{in("/lxc.payload.b", leading(exec, 23, 10, 23, 5, "/pause")), "?"},
		{in("/a", leading(exec, 24, 10, 24, 6, "/bin/sh")), "?"},
		{leading(exec, 20, 10, 20, 7, "/sbin/init"), "?"}, // no cgroup is reported
		{cut, "?"},
	} {
		r.src.Push(step.event)
		if p := r.onlyEvent(t).Process; entryOf(p) != step.want {
			t.Errorf("step %d: %d has %s, want %s", i, p.PID, entryOf(p), step.want)
		}
	}
}

// A child whose source does not report its login has the login of its creator, or of its parent if
// the creator is not reported.
func TestLoginIsInherited(t *testing.T) {
	r := newRig(t, engine.Options{Matrix: new(engine.Matrix)})
	login := func(uid uint32, p enginetest.Raw) enginetest.Raw {
		p.Task.Login = engine.Login{UID: uid, Session: uid + 1}
		p.Task.Known |= engine.FieldLogin.Set()
		return p
	}
	by := func(creator uint32, p enginetest.Raw) enginetest.Raw {
		p.Creator = creator
		return p
	}
	r.learn(login(engine.LoginUnset, leading(fork, 1, 0, 1, 0, "/sbin/init")))
	for i, step := range []struct {
		event enginetest.Raw
		want  string
	}{
		{by(0, leading(fork, 10, 1, 1, 1, "")), "4294967295 0 cached"},
		{login(7, leading(exec, 10, 1, 10, 2, "/bin/sh")), "7 8"},
		{leading(comm, 10, 1, 10, 3, ""), "7 8 cached"},
		{by(0, leading(fork, 11, 10, 10, 4, "")), "7 8 cached"},
		{login(9, leading(exec, 10, 1, 10, 6, "/bin/sh")), "9 10"},
		{by(10, leading(fork, 12, 10, 10, 7, "")), "9 10 cached"},
		{by(99, leading(fork, 15, 10, 10, 9, "")), "?"},
	} {
		r.src.Push(step.event)
		p, got := r.onlyEvent(t).Process, "?"
		if p.Known.Has(engine.FieldLogin) {
			got, _ = p.NumberText(engine.FieldLogin)
		}
		if p.Cached.Has(engine.FieldLogin) {
			got += " cached"
		}
		if got != step.want {
			t.Errorf("step %d: %d has %s, want %s", i, p.PID, got, step.want)
		}
	}
}

// A child that was forked before its creator's path was read does not inherit the path: the creator
// may have changed its root meanwhile.
func TestImageReadAfterABirthIsNotInherited(t *testing.T) {
	r := newRig(t, engine.Options{})
	x := leading(exec, 10, 1, 10, 2, "/program")
	x.Read, x.Task.Cached = uint64(time.Second)+5, engine.FieldExe.Set()
	r.src.Push(x, leading(fork, 11, 10, 10, 3, ""), leading(fork, 12, 10, 10, 6, ""), leading(fork, 13, 11, 10, 7, ""))
	for _, want := range []string{"/program", "", "/program", ""} {
		p := r.onlyEvent(t).Process
		if p.Known.Has(engine.FieldExe) != (want != "") || want != "" && (p.Image.Exe != want || !p.Cached.Has(engine.FieldExe)) {
			t.Errorf("%d: got filename %q, known %s, cached %s, want %q", p.PID, p.Image.Exe, p.Known, p.Cached, want)
		}
	}
}

// A source that does not report births and programs has no entry leaders. For other sources the row
// has the origin.
func TestEntryCapability(t *testing.T) {
	r := newRig(t, engine.Options{})
	if c := r.src.Capabilities().Fields[engine.FieldEntryLeader]; c.Origin != engine.OriginDerived || !c.At.Has(engine.EventExec) {
		t.Errorf("got %+v", c)
	}
	src := &noForks{Source: new(enginetest.Source)}
	if _, err := engine.New(src, r.clock.Engine(), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	if c := src.table.Fields[engine.FieldEntryLeader]; c.Origin != engine.OriginNone || c.Via == "" {
		t.Errorf("got %+v", c)
	}
}

type noForks struct {
	*enginetest.Source
	table engine.CapabilityTable
}

func (s *noForks) Capabilities() *engine.CapabilityTable { return &s.table }

// The leaders and ancestors of a process, as text and as JSON.
func TestLineage(t *testing.T) {
	m := enginetest.NewMachine()
	shell := m.Running("/usr/sbin/sshd").Fork().SetSID().Exec("/bin/bash")
	shell.Fork().Exec("/usr/bin/make").Fork().Exec("/bin/true").Exit(0)
	e, err := engine.New(m, m.Clock(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(func(r *engine.RawEvent) error { r.Time = m.Clock().Now(); e.Learn(r); return nil }); err != nil {
		t.Fatal(err)
	}
	var text, object string
	for !e.Drained() {
		if ev, err := e.Get(); err == nil && ev.Events.Has(engine.EventExit) {
			text, object = string(e.AppendDump(nil, ev)), string(e.AppendJSON(nil, ev))
			of := ev.Clone()
			of.Process.Cached |= engine.FieldEntryLeader.Set()
			if got := string(e.AppendDump(nil, of)); !strings.Contains(got, "  CACH\tcached=exe,entry_leader\n") || strings.Contains(string(of.AppendDump(nil)), "entry_leader") {
				t.Errorf("a cached entry leader is missing from the leaders: got %q", got)
			}
			if clone := ev.Clone(); text != string(e.AppendDump(nil, clone)) {
				t.Error("a clone has other ancestors")
			}
		}
	}
	for _, want := range []string{"  LEAD\tentry_leader_type=sshd entry_leader=3 session_leader=3:bash group_leader=3:bash\n", "  ANCS\tancestors=[ 4:make 3:bash 2:sshd 1:init ]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if _, entry, _ := strings.Cut(object, `"entry_leader":`); !strings.HasPrefix(entry, `3,"entry_leader_type":"sshd","entry_leader_start":1001000000,`) {
		t.Error(object)
	}
	_, got, _ := strings.Cut(object, `},"session_leader"`)
	const bash = `{"pid":3,"start_boottime":1001000000,"comm":"bash","exe":"/bin/bash"}`
	want := ":" + bash + `,"group_leader":` + bash + `,"ancestors":[{"pid":4,"start_boottime":1004000000,"comm":"make","exe":"/usr/bin/make"},` + bash +
		`,{"pid":2,"start_boottime":2,"comm":"sshd","exe":"/usr/sbin/sshd","cached":["exe"]},{"pid":1,"start_boottime":1,"comm":"init","exe":"/sbin/init","cached":["exe"]}]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
