package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/clock"
)

// offline returns a source without a socket, which reads this machine's /proc.
func offline(t testing.TB) *Source {
	t.Helper()
	s := newSource(source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	proc, err := procfs.Open()
	if err != nil {
		t.Skip(err)
	}
	s.proc, s.finishing = proc, true
	t.Cleanup(func() { proc.Close() })
	return s
}

// native are the numbers of calls of this machine.
func native(c auditrecord.Call) (arch auditrecord.ABI, number uint32) {
	abi := auditrecord.Native(runtime.GOARCH)[0]
	return abi, slices.Min(abi.Numbers(func(o auditrecord.Call) bool { return o == c }))
}

// tell gives a source records at a time in ms after another one.
type tell struct {
	s      *Source
	serial uint32
}

func (t *tell) record(kind auditrecord.Type, serial uint32, at uint64, body string) {
	ms := (int64(at) + t.s.wall) / 1_000_000
	m := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint16(m[4:], uint16(kind))
	m = fmt.Appendf(m, "audit(%d.%03d:%d): %s", ms/1000, ms%1000, serial, body)
	t.s.message(m)
}

// noResult is that of a call that did not return.
const noResult = 1 << 40

// call gives the records of a call by a process.
func (t *tell) call(at uint64, c auditrecord.Call, pid, ppid int, result int64, a0 uint64, others ...string) {
	t.serial++
	arch, nr := native(c)
	outcome := fmt.Sprintf("success=%s exit=%d ", map[bool]string{true: "yes", false: "no"}[result >= 0], result)
	if c == auditrecord.ExitGroup || c == auditrecord.Exit || result == noResult {
		outcome = ""
	}
	t.record(auditrecord.Syscall, t.serial, at, fmt.Sprintf(`arch=%x syscall=%d %sa0=%x a1=0 a2=0 a3=0 items=0 ppid=%d pid=%d auid=1000 `+
		`uid=1 gid=2 euid=3 suid=4 fsuid=3 egid=5 sgid=6 fsgid=5 tty=(none) ses=7 comm="sh" exe="/bin/sh" subj=kernel key="quark"`, arch, nr, outcome, a0, ppid, pid))
	for _, o := range others {
		kind := auditrecord.Path
		if strings.HasPrefix(o, "argc") {
			kind = auditrecord.Execve
		}
		t.record(kind, t.serial, at, o)
	}
	t.record(auditrecord.EndOfEvent, t.serial, at, "")
}

// settle returns what a source makes of all that it was given.
func settle(s *Source) (evs conform.Events) {
	s.to = &evs
	s.look()
	s.noted = s.now() + 10*inFlight
	s.settle(true, true)
	return evs
}

// sleeper starts a process that waits, and returns its pid.
func sleeper(t *testing.T) int {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := barefork.Start(new(barefork.Script).WaitFor(int(r.Fd())).Exit(0), barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); r.Close(); w.Close() })
	return p.PID
}

// A child can do something before the call that has made it returns: the birth comes first.
func TestBirthFirst(t *testing.T) {
	s, me := offline(t), os.Getpid()
	s.to = new(conform.Events)
	at := s.now()
	child := sleeper(t)
	d := tell{s: s}
	d.call(at, auditrecord.Exec, child, me, 0, 0, `argc=2 a0="/bin/sh" a1=612062`, `item=0 name="/bin/sh" inode=1`, `item=1 name="/lib/ld" inode=2`)
	d.call(at, auditrecord.ExitGroup, 1<<22+1, 1, 0, 3) // of a process that is gone
	d.call(at, auditrecord.Clone, me, os.Getppid(), int64(child), uint64(unix.SIGCHLD))
	evs := settle(s)
	fork, exec := evs.One(t, child, engine.KindFork), evs.One(t, child, engine.KindExec)
	if slices.Index(evs, fork) != 0 || slices.Index(evs, exec) != 1 || fork.Time > exec.Time || fork.Time < at-1e6 || fork.Time > s.now() {
		t.Errorf("the order is %v, at %d and %d, begun at %d", evs.Kinds(child), fork.Time, exec.Time, at)
	}
	want := engine.Credentials{UID: 1, EUID: 3, SUID: 4, GID: 2, EGID: 5, SGID: 6}
	for _, ev := range []*engine.RawEvent{fork, exec} {
		if ev.Task.PPID != uint32(me) || ev.Task.Cred != want || ev.Task.Login != (engine.Login{UID: 1000, Session: 7}) {
			t.Errorf("%v: %+v", ev.Kind, ev.Task)
		}
		if of := engine.FieldsIDs | engine.SetOf(engine.FieldPPID, engine.FieldLogin); ev.Task.Known&^ev.Task.Carried&of != of {
			t.Errorf("%v: known %v, carried %v", ev.Kind, ev.Task.Known, ev.Task.Carried)
		}
	}
	if fork.Creator != uint32(me) || fork.Task.ExitSignal != uint32(unix.SIGCHLD) || !fork.Task.Known.Has(engine.FieldStart) {
		t.Errorf("%+v", fork)
	}
	if string(exec.Bytes(engine.FieldCmdline)) != "/bin/sh\x00a b\x00" || string(exec.Bytes(engine.FieldExecPath)) != "/bin/sh" ||
		string(exec.Bytes(engine.FieldFilename)) != "/bin/sh" || exec.Task.Carried.Has(engine.FieldFilename) {
		t.Errorf("%q, %q, %q", exec.Bytes(engine.FieldCmdline), exec.Bytes(engine.FieldExecPath), exec.Bytes(engine.FieldFilename))
	}
}

// The end of a thread stays before an exec of its process, and what the new image does after it.
func TestExecAfterEndOfThread(t *testing.T) {
	const pid = 1<<22 + 5
	s := offline(t)
	s.to = new(conform.Events)
	d, began := tell{s: s}, s.now()-20_000_000
	d.call(began, auditrecord.Exit, pid, 1, 0, 0)
	d.call(began+4_000_000, auditrecord.Exec, pid, 1, 0, 0)
	d.call(began+8_000_000, auditrecord.SetSID, pid, 1, pid, 0)
	if evs := settle(s); len(evs) != 2 || evs[0].Kind != engine.KindExec || evs[1].Kind != engine.KindIDChange {
		t.Errorf("the order is %v", evs.Kinds(pid))
	}
}

// A pid that is used again at once has lives one after the other, also where /proc shows none of
// them, and where their births come last.
func TestReuse(t *testing.T) {
	const pid, parent = 1<<22 + 7, 1<<22 + 5
	s := offline(t)
	s.to = new(conform.Events)
	d := tell{s: s}
	at := s.now()
	for i := range 4 {
		d.call(at, auditrecord.Exec, pid, parent, 0, 0, `argc=1 a0="x"`, `item=0 name="x"`)
		d.call(at, auditrecord.ExitGroup, pid, parent, 0, uint64(i))
		d.call(at, auditrecord.Clone3, parent, 1, pid, 0)
	}
	var got []string
	for _, ev := range settle(s) {
		got = append(got, fmt.Sprint(ev.Kind, ev.Task.Exit.Code()))
	}
	if want := "EXEC 0,EXIT 0,EXEC 0,EXIT 1,EXEC 0,EXIT 2,EXEC 0,EXIT 3"; strings.Join(got, ",") != want {
		t.Errorf("%q, not %s", got, want)
	}
}

// A number that a fork has returned is that of a process only if /proc shows it.
func TestWhoseNumber(t *testing.T) {
	me := os.Getpid()
	for _, c := range []struct {
		name   string
		call   auditrecord.Call
		flags  uint64
		caller int
		child  func(*testing.T) int
		want   bool
	}{
		{"a child that waits", auditrecord.Clone, uint64(unix.SIGCHLD), me, sleeper, true},
		{"of clone3, whose flags are not seen", auditrecord.Clone3, 0, me, sleeper, true},
		{"one that is gone, of a caller that is older", auditrecord.Clone, uint64(unix.SIGCHLD), 1, func(*testing.T) int { return 1<<22 + 7 }, true},
		{"one that is gone, of clone3", auditrecord.Clone3, 0, 1, func(*testing.T) int { return 1<<22 + 7 }, false},
		{"neither is there any more", auditrecord.Clone, uint64(unix.SIGCHLD), 1<<22 + 5, func(*testing.T) int { return 1<<22 + 7 }, false},
		{"the number of another process, of a caller that is gone", auditrecord.Clone, uint64(unix.SIGCHLD), 1<<22 + 5, func(*testing.T) int { return 1 }, false},
		{"a thread", auditrecord.Clone, cloneThread, me, sleeper, false},
	} {
		s := offline(t)
		s.to = new(conform.Events)
		at := s.now()
		child := c.child(t)
		d := tell{s: s}
		d.call(at, c.call, c.caller, 1, int64(child), c.flags)
		if got := len(settle(s).Of(child, engine.KindFork)) == 1; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestExecPath(t *testing.T) {
	const execAt = auditrecord.ExecAt
	cwd := uint64(0xffffffffffffff9c)
	for _, c := range []struct {
		call auditrecord.Call
		fd   uint64
		name string
		want string
	}{
		{auditrecord.Exec, 0x7fff0000, `"/bin/true"`, "/bin/true"},
		{auditrecord.Exec, 0x7fff0000, `"true"`, "true"},
		{execAt, cwd, `"true"`, "true"},
		{execAt, 7, `"true"`, "/dev/fd/7/true"},
		{execAt, 7, `74727565FF`, "/dev/fd/7/true\xff"},
		{execAt, 7, `""`, "/dev/fd/7"},
		{execAt, 7, `"/bin/true"`, "/bin/true"},
		{execAt, 7, `2F62696EFF`, "/bin\xff"},
		{auditrecord.Exec, 0, "(null)", "?"},
	} {
		s := offline(t)
		s.to = new(conform.Events)
		d := tell{s: s}
		d.call(s.now(), c.call, 1<<22+5, 1, -int64(unix.ENOENT), c.fd, "item=0 name="+c.name+" nametype=UNKNOWN", `item=1 name="/other"`)
		ev := settle(s).One(t, 1<<22+5, engine.KindExecFailed)
		got := "?"
		if ev.Task.Known.Has(engine.FieldFilename) {
			got = string(ev.Bytes(engine.FieldFilename))
		}
		if got != c.want || ev.Errno != uint16(unix.ENOENT) {
			t.Errorf("call %d, descriptor %#x, %s: %q, error %d", c.call, c.fd, c.name, got, ev.Errno)
		}
	}
}

// Who asks whether a file may be executed executes nothing.
func TestExecCheck(t *testing.T) {
	s := offline(t)
	s.to = new(conform.Events)
	d := tell{s: s}
	d.call(s.now(), auditrecord.ExecAt, 1<<22+5, 1, 0, 7, `item=0 name="true"`)
	if evs := settle(s); len(evs) != 0 {
		t.Errorf("%v", evs.Kinds(1<<22+5))
	}
}

// It is not known what was executed, and whether, if the record of the arguments may be lost.
func TestExecOfLostArguments(t *testing.T) {
	const pid = 1<<22 + 5
	for name, c := range map[string]struct {
		before func(s *Source)
		after  func(s *Source)
		lost   uint64
	}{
		"a check":             {},
		"dropped before":      {before: func(s *Source) { s.dropped = []drop{{noticed: s.now(), from: 1}} }, lost: 1},
		"dropped since":       {after: func(s *Source) { s.lastDrop = s.now() }, lost: 1},
		"the last is missing": {after: func(s *Source) { s.queue.events[0].complete = false }, lost: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := offline(t)
			var evs conform.Events
			s.to = &evs
			if c.before != nil {
				c.before(s)
			}
			d := tell{s: s}
			d.call(s.now(), auditrecord.ExecAt, pid, 1, 0, 7, `item=0 name="true"`)
			if c.after != nil {
				c.after(s)
			}
			s.noted = s.now() + 10*inFlight
			if lost := s.settle(true, true); lost.n != c.lost || len(evs) != 0 {
				t.Errorf("%d lost, not %d; %v", lost.n, c.lost, evs.Kinds(pid))
			}
		})
	}
}

// A record does not say which thread has changed its ids. Those of one that executes right after
// become those of the leader.
func TestWhoseIDs(t *testing.T) {
	theirs := engine.Credentials{UID: 1, EUID: 3, SUID: 4, GID: 2, EGID: 5, SGID: 6}
	other := theirs
	other.EUID = 7
	for _, c := range []struct {
		name   string
		before life
		leader engine.Credentials
		exec   bool
		want   int
	}{
		{"of the leader", life{cred: other, ids: true}, theirs, false, 1},
		{"of another thread, which has the same groups", life{cred: other, ids: true}, other, false, 0},
		{"of another thread, which has executed", life{cred: other, ids: true}, theirs, true, 0},
		{"that changes nothing", life{cred: theirs, ids: true}, theirs, false, 0},
		{"of a process of which nothing is known", life{}, theirs, false, 0},
		{"of a process that was read later", life{cred: other, ids: true, since: clock.Monotonic() + 1e9}, theirs, false, 0},
		{"of a process with the number of an earlier one", life{cred: other, ids: true, start: 1}, theirs, false, 0},
	} {
		s, child := offline(t), sleeper(t)
		s.to = new(conform.Events)
		s.lives[uint32(child)] = c.before
		d, at := tell{s: s}, s.now()
		d.call(at, auditrecord.SetGID, child, 1, 0, 5)
		s.look()
		s.queue.events[0].leader = c.leader
		if c.exec {
			d.call(at, auditrecord.Exec, child, 1, 0, 0, `argc=1 a0="/bin/sh"`)
		}
		if got := len(settle(s).Of(child, engine.KindIDChange)); got != c.want {
			t.Errorf("%s: %d events, not %d", c.name, got, c.want)
		}
	}
	// A thread can have changed them while another one executed, which ends it.
	s, child := offline(t), sleeper(t)
	s.to = new(conform.Events)
	d, at := tell{s: s, serial: 8}, s.now()-100e6
	d.call(at, auditrecord.Exec, child, 1, 0, 0, `argc=1 a0="/bin/sh"`)
	d.serial = 3
	d.call(at+50e6, auditrecord.SetGID, child, 1, 0, 5)
	s.queue.events[1].cred.GID = 9
	if got := len(settle(s).Of(child, engine.KindIDChange)); got != 0 {
		t.Errorf("%d events of a thread that an exec has ended", got)
	}
}

// The call of a creator that lost its CPU returns late. The birth is told, with the time of what
// was told meanwhile, if that is nothing of the child.
func TestBirthOfLongCall(t *testing.T) {
	for _, did := range []bool{false, true} {
		s := offline(t)
		d, at := tell{s: s}, s.now()-100e6
		child, other := sleeper(t), sleeper(t)
		s.to = new(conform.Events)
		told := other
		if did {
			told = child
		}
		d.call(at+90e6, auditrecord.SetSID, told, os.Getpid(), int64(told), 0)
		before := settle(s).One(t, told, engine.KindIDChange).Time
		d.call(at, auditrecord.Clone, os.Getpid(), 1, int64(child), uint64(unix.SIGCHLD))
		births := settle(s).Of(child, engine.KindFork)
		if want := map[bool]int{false: 1, true: 0}[did]; len(births) != want || want == 1 && (births[0].Time < before || births[0].Creator != uint32(os.Getpid())) {
			t.Errorf("%d births, of %v; the child did something: %v", len(births), births, did)
		}
	}
}

// A call of a child can be told before its birth, which comes late: whether it has changed the ids
// is not known.
func TestIDsBeforeBirth(t *testing.T) {
	s, child := offline(t), sleeper(t)
	s.to = new(conform.Events)
	d, at := tell{s: s}, s.now()-20e6
	call := func(at uint64, euid uint32) int {
		d.call(at, auditrecord.SetUID, child, 1, 0, 5)
		s.look()
		e := s.queue.events[len(s.queue.events)-1]
		e.cred.EUID = euid
		e.leader = e.cred
		return len(settle(s).Of(child, engine.KindIDChange))
	}
	if call(at+4e6, 9) != 0 {
		t.Error("a change from ids that are not known")
	}
	d.call(at, auditrecord.Clone, os.Getpid(), 1, int64(child), uint64(unix.SIGCHLD))
	settle(s)
	if call(at+8e6, 9) != 0 {
		t.Error("a change to the same ids")
	}
	if call(at+12e6, 3) != 1 {
		t.Error("no change")
	}
}

// A thread can change its ids before the call that has made it returns, of which nothing may be
// known yet: its process seems to have one thread.
func TestIDsOfThread(t *testing.T) {
	old := engine.Credentials{UID: 1, EUID: 3, SUID: 4, GID: 2, EGID: 5, SGID: 6}
	theirs, next := old, old
	theirs.GID, next.GID = 9, 10
	for _, c := range []struct {
		name   string
		leader engine.Credentials // as /proc shows it after the call
		then   func(d *tell, child int, at uint64)
		want   int
	}{
		{"of the only thread, which has changed them again", next, func(*tell, int, uint64) {}, 1},
		{"the call returns in the same tick", next, func(d *tell, child int, at uint64) {
			d.call(at, auditrecord.Clone, child, 1, 1<<22+6, cloneThread)
		}, 0},
		{"of clone3", next, func(d *tell, child int, at uint64) { d.call(at, auditrecord.Clone3, child, 1, 1<<22+6, 0) }, 0},
		{"it has not returned yet", old, func(*tell, int, uint64) {}, 0},
		{"it does not return, as the thread executes", theirs, func(d *tell, child int, at uint64) {
			d.call(at, auditrecord.Clone, child, 1, noResult, cloneThread)
			d.call(at, auditrecord.Exec, child, 1, 0, 0)
		}, 0},
		{"its record is lost", next, func(d *tell, child int, at uint64) {
			d.serial++
			d.call(at, auditrecord.SetSID, 1<<22+7, 1, 0, 0)
		}, 0},
	} {
		s := offline(t)
		d, at := tell{s: s}, s.now()-20e6 // before the child starts
		child := sleeper(t)
		s.to = new(conform.Events)
		d.call(at, auditrecord.Clone, os.Getpid(), 1, int64(child), uint64(unix.SIGCHLD))
		settle(s)
		d.call(at+4e6, auditrecord.SetGID, child, 1, 0, 5)
		s.look()
		s.queue.events[0].cred, s.queue.events[0].leader = theirs, c.leader
		c.then(&d, child, at+4e6)
		if got := len(settle(s).Of(child, engine.KindIDChange)); got != c.want {
			t.Errorf("%s: %d events, not %d", c.name, got, c.want)
		}
	}
}

// delivery is a source that has the events of another one to tell.
type delivery struct {
	*Source
	evs conform.Events
}

func (d *delivery) Populate(to engine.Sink) error {
	for _, ev := range d.evs {
		to.Insert(ev)
	}
	return io.EOF
}

// A call's time can be behind what /proc shows, as a timer interrupt comes late. What is told of a
// pid while the processes that are there are read is of the process that the table has.
func TestTimesAtTheStart(t *testing.T) {
	s := offline(t)
	s.to = new(conform.Events)
	s.describe(false, nil)
	older := sleeper(t)
	if err := s.noteOlder(); err != nil {
		t.Fatal(err)
	}
	s.opened = s.listed
	time.Sleep(50 * time.Millisecond) // until the start times of another tick
	younger := sleeper(t)
	d, early := tell{s: s}, s.opened+10e6
	d.call(s.opened-20e6, auditrecord.Exec, older, 1, -int64(unix.ENOENT), 0, `item=0 name="/bin/x"`)
	d.call(s.opened-1e6, auditrecord.Clone, 1, 0, int64(older), uint64(unix.SIGCHLD))
	d.call(early, auditrecord.Clone, 1, 0, int64(younger), uint64(unix.SIGCHLD))
	s.look()
	s.lossTo = s.now() // so that it is not certain whose start times these are
	evs := settle(s)
	if ev := evs.One(t, older, engine.KindExecFailed); ev.Time < s.opened {
		t.Errorf("a call at %d, before the source was opened at %d", ev.Time, s.opened)
	}
	if len(evs.Of(older, engine.KindFork)) != 0 {
		t.Error("the birth of a process that was there before")
	}
	// Of before /proc was read.
	evs = append(evs, &engine.RawEvent{Kind: engine.KindFork, PID: 1<<22 + 5, TID: 1<<22 + 5, Creator: uint32(older), Time: s.opened + 30e6})
	mono := clock.Monotonic()
	c := engine.NewClock(clock.Monotonic, engine.Host{}, engine.Offset{Boot: clock.Boottime() - mono})
	e, err := engine.New(&delivery{s, evs}, c, engine.Options{Look: func(pid uint32) (uint64, engine.Sight) {
		_, start, err := s.proc.Status(pid)
		if err != nil {
			return 0, engine.SightGone
		}
		return start, engine.SightAlive
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(s.proc, func(ev *engine.RawEvent) error { e.Learn(ev); return nil }); err != nil {
		t.Fatal(err)
	}
	if p := e.Lookup(uint32(older)); p == nil || !p.Known.Has(engine.FieldStart) || p.Known&^p.Carried&^constant&^engine.FieldPIDNS.Set() != 0 {
		t.Errorf("a process that was there before: %+v", p)
	}
	births, known := 0, 0
	for ev, err := e.Get(); err == nil; ev, err = e.Get() {
		p := e.Lookup(ev.Process.PID)
		if ev.Events.Has(engine.EventFork) {
			births++
			if p != ev.Process {
				t.Errorf("the table has %v of a process that was born with %v", p.Known, ev.Process.Known)
			}
			if p.Known.Has(engine.FieldFilename) {
				t.Error("a child has what was read of its parent later")
			}
		}
	}
	for p := range e.Processes() {
		if p.PID == uint32(younger) {
			known++
		}
	}
	if births != 2 || known != 1 {
		t.Errorf("%d births, %d processes", births, known)
	}
}

// A call that is not told may have been the leader's: one that sets the same ids again may change
// nothing, and one that sets others does.
func TestIDsAfterUntoldChange(t *testing.T) {
	for gid, want := range map[uint32]int{7: 0, 9: 0, 10: 1} {
		s, child := offline(t), sleeper(t)
		s.to = new(conform.Events)
		old := engine.Credentials{UID: 1, EUID: 3, SUID: 4, GID: 7, EGID: 5, SGID: 6}
		s.lives[uint32(child)] = life{cred: old, ids: true}
		d, at := tell{s: s}, s.now()-20e6
		for range 2 {
			d.call(at, auditrecord.SetGID, child, 1, 0, 5)
		}
		s.look()
		first, second := s.queue.events[0], s.queue.events[1]
		first.cred.GID, second.cred.GID = 9, gid
		second.leader = second.cred
		if got := len(settle(s).Of(child, engine.KindIDChange)); got != want {
			t.Errorf("group %d: %d events, not %d", gid, got, want)
		}
	}
}

// What was read may be of the image of an exec that the socket has dropped, told or not yet.
func TestImageAfterLoss(t *testing.T) {
	for name, c := range map[string]struct {
		loss func(s *Source)
		want bool
	}{
		"nothing is lost":         {func(*Source) {}, true},
		"long before":             {func(s *Source) { s.lastDrop, s.lossTo = 1, 1 }, true},
		"since":                   {func(s *Source) { s.lastDrop = s.now() }, false},
		"it is not told yet":      {func(s *Source) { s.dropped = []drop{{noticed: 1, from: 1}} }, false},
		"in the kernel, and told": {func(s *Source) { s.lossTo = s.now() }, false},
	} {
		s, child := offline(t), sleeper(t)
		s.to = new(conform.Events)
		d := tell{s: s}
		d.call(s.now(), auditrecord.Exec, child, 1, 0, 0)
		s.look()
		c.loss(s)
		if got := settle(s).One(t, child, engine.KindExec).Task.Known.Has(engine.FieldExecutable); got != c.want {
			t.Errorf("%s: known %v", name, got)
		}
	}
}

// An exec that fails too late to go back ends the process by a signal, and is no event.
func TestLateFailure(t *testing.T) {
	s := offline(t)
	s.to = new(conform.Events)
	d := tell{s: s}
	d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, -int64(unix.ENOMEM), 0)
	d.serial++
	d.record(auditrecord.Abend, d.serial, s.now(), fmt.Sprintf(`auid=1 uid=0 gid=0 ses=1 pid=%d comm="x" exe="/x" sig=11 res=1`, 1<<22+5))
	if evs := settle(s); len(evs) != 0 {
		t.Errorf("%v", evs.Kinds(1<<22+5))
	}
}

// Audit says EINTR of a call that the kernel makes again, of one that ends with its thread, and of
// one that was interrupted: which it was is not known.
func TestInterruptedExec(t *testing.T) {
	for errno, want := range map[unix.Errno]int{unix.EINTR: 0, unix.ENOENT: 1} {
		s := offline(t)
		s.to = new(conform.Events)
		d := tell{s: s}
		d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, -int64(errno), 0, `item=0 name="/bin/x"`)
		if evs := settle(s); len(evs) != want {
			t.Errorf("%v: %d events", errno, len(evs))
		}
	}
}

// The records of programs and of logins have numbers too: where these have come nothing is missing.
func TestOtherRecords(t *testing.T) {
	s := offline(t)
	var evs conform.Events
	s.to = &evs
	d := tell{s: s}
	for i, kind := range []auditrecord.Type{1100, 1005, 1006, 1199, 1400, 2100, 2999} {
		d.record(kind, uint32(i+1), s.now(), "pid=1 uid=0 auid=1 ses=1 msg='x'")
	}
	s.noted = s.now()
	if s.checkLoss(loss{}); len(evs) != 0 {
		t.Errorf("%d events are missing", evs[0].Gap.Count)
	}
}

// What came before the end of audit is told before its error, and until when others hid something.
func TestTellBeforeError(t *testing.T) {
	s := offline(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var evs conform.Events
	s.fd, s.finishing, s.to, s.hiddenFrom, s.disabled = fds[0], false, &evs, 5, true
	d := tell{s: s}
	d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, 0, 0, `argc=1 a0="/bin/sh"`)
	if err := s.Populate(&evs); err == nil {
		t.Error("no error")
	}
	evs.One(t, 1<<22+5, engine.KindExec)
	if gaps := evs.Of(0, engine.KindGap); len(gaps) != 1 || gaps[0].Gap.Cause != engine.LossUnseen || gaps[0].Gap.From != 5 {
		t.Errorf("%d gaps", len(gaps))
	}
}

// What rules of the list exclude keep from the source is noted, and an error if it is all.
func TestExcluded(t *testing.T) {
	const uid, equal, notEqual, atLeast = 1, 0x40000000, 0x30000000, 0x60000000
	type field struct{ field, value, op uint32 }
	for _, c := range []struct {
		fields     []field
		noted, all bool
	}{
		{[]field{{auditrule.FieldMsgType, 1300, equal}}, false, true},
		{[]field{{auditrule.FieldMsgType, 1200, atLeast}}, false, true},
		{[]field{{auditrule.FieldMsgType, 1100, notEqual}}, false, true},
		{[]field{{auditrule.FieldMsgType, 1300, notEqual}}, true, false},
		{[]field{{auditrule.FieldMsgType, 1300, equal}, {uid, 0, equal}}, true, false},
		{[]field{{uid, 0, equal}}, true, false},
		{[]field{{uid, 1300, equal}}, true, false},
		{[]field{{auditrule.FieldMsgType, 1302, equal}}, true, false},
		{[]field{{auditrule.FieldMsgType, 1309, equal}}, true, false},
		{[]field{{auditrule.FieldMsgType, 1305, equal}}, true, false},
		{[]field{{auditrule.FieldMsgType, 1307, equal}}, false, false},
		{[]field{{auditrule.FieldMsgType, 1100, equal}, {uid, 0, equal}}, false, false},
	} {
		b := (&auditrule.Rule{List: auditrule.ListExclude, Action: auditrule.Always}).Bytes()
		binary.NativeEndian.PutUint32(b[8:], uint32(len(c.fields)))
		for i, f := range c.fields { // as in struct audit_rule_data
			for j, v := range []uint32{f.field, f.value, f.op} {
				binary.NativeEndian.PutUint32(b[12+64*4+j*64*4+i*4:], v)
			}
		}
		rule, err := auditrule.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if note, err := hides(&rule); (note != "") != c.noted || (err != nil) != c.all {
			t.Errorf("%v: %q, %v", c.fields, note, err)
		}
	}
}

// The status of an end is the argument of exit_group, or unknown if threads called it with
// different ones. A thread that ends by itself ends its process if it is the only one.
func TestEnds(t *testing.T) {
	const gone = 1<<22 + 5
	type call struct {
		c      auditrecord.Call
		result int64
		a0     uint64
	}
	for _, c := range []struct {
		name  string
		calls []call
		ends  int
		want  int32 // -1 for unknown
	}{
		{"exit_group", []call{{auditrecord.ExitGroup, 0, 3}}, 1, 0x300},
		{"two threads, the same status", []call{{auditrecord.ExitGroup, 0, 3}, {auditrecord.ExitGroup, 0, 3}}, 1, 0x300},
		{"two threads, not the same", []call{{auditrecord.ExitGroup, 0, 3}, {auditrecord.ExitGroup, 0, 4}}, 1, -1},
		{"exit of what may be a thread", []call{{auditrecord.Exit, 0, 3}}, 0, 0},
		{"exit of the only thread", []call{{auditrecord.Exec, 0, 0}, {auditrecord.Exit, 0, 3}}, 1, 0x300},
		{"exit after a thread was made", []call{{auditrecord.Exec, 0, 0}, {auditrecord.Clone, 77, cloneThread}, {auditrecord.Exit, 0, 3}}, 0, 0},
		{"exit after what may be a thread was made", []call{{auditrecord.Exec, 0, 0}, {auditrecord.Clone3, gone + 1, 0}, {auditrecord.Exit, 0, 3}}, 0, 0},
		{"exit, and exit_group", []call{{auditrecord.Exec, 0, 0}, {auditrecord.Exit, 0, 3}, {auditrecord.ExitGroup, 0, 4}}, 1, 0x400},
	} {
		s := offline(t)
		s.to = new(conform.Events)
		d := tell{s: s}
		for _, o := range c.calls {
			d.call(s.now(), o.c, gone, 1, o.result, o.a0)
		}
		ends := settle(s).Of(gone, engine.KindExit)
		if len(ends) != c.ends {
			t.Errorf("%s: %d ends", c.name, len(ends))
			continue
		}
		for _, ev := range ends {
			x := &ev.Task
			switch known := x.Known.Has(engine.FieldExit); {
			case known != (c.want >= 0), known && (x.Exit.WaitStatus != c.want || !x.Carried.Has(engine.FieldExit)):
				t.Errorf("%s: known %v, status %#x", c.name, known, x.Exit.WaitStatus)
			}
		}
	}
	// A leader ends while another thread executes, which ends later than it began.
	for _, c := range []auditrecord.Call{auditrecord.Exit, auditrecord.ExitGroup} {
		s := offline(t)
		s.to = new(conform.Events)
		d, began := tell{s: s}, s.now()-20_000_000
		d.call(began+8_000_000, c, gone, 1, 0, 3)
		d.call(began, auditrecord.Exec, gone, 1, 0, 0)
		d.call(began+16_000_000, auditrecord.ExitGroup, gone, 1, 0, 5)
		if ends := settle(s).Of(gone, engine.KindExit); len(ends) != 1 || ends[0].Task.Exit.WaitStatus != 0x500 {
			t.Errorf("%d ends of a process whose leader ended amid an exec", len(ends))
		}
	}
	// A thread calls exit_group in the tick in which another one begins an exec, which succeeds
	// later, and is told when the process is gone.
	s := offline(t)
	evs := new(conform.Events)
	s.to, s.finishing = evs, false
	d, at := tell{s: s}, s.now()-20_000_000
	d.call(at, auditrecord.ExitGroup, gone, 1, 0, 3)
	s.look()
	s.noted = s.now() + s.hold
	s.settle(false, false)
	d.call(at, auditrecord.Exec, gone, 1, 0, 0)
	d.call(at+8_000_000, auditrecord.ExitGroup, gone, 1, 0, 5)
	s.look()
	for range 2 { // the second ends it
		s.noted = s.now() + s.hold + inFlight
		s.settle(false, false)
	}
	if evs := *evs; len(evs) != 2 || evs[0].Kind != engine.KindExec || evs[1].Kind != engine.KindExit || evs[1].Task.Exit.WaitStatus != 0x500 {
		t.Errorf("%v of a process in which a thread called exit_group amid an exec", evs.Kinds(gone))
	}
	// What another thread does while the process begins to end comes before the end, though not
	// before what another process has done until then. What the next process with the number
	// does comes after the end.
	const another = gone + 1
	for _, c := range []struct {
		reused bool
		want   string
	}{{false, "another's EXEC, ID_CHANGE, EXIT"}, {true, "EXIT, FORK, another's EXEC, ID_CHANGE"}} {
		s := offline(t)
		s.to = new(conform.Events)
		d, began := tell{s: s}, s.now()-20_000_000
		d.call(began-4_000_000, auditrecord.Exec, gone, 1, 0, 0)
		settle(s)
		d.call(began, auditrecord.ExitGroup, gone, 1, 0, 3)
		if c.reused {
			d.call(began+4_000_000, auditrecord.Clone, 1, 0, gone, uint64(unix.SIGCHLD))
		}
		d.call(began+6_000_000, auditrecord.Exec, another, 1, 0, 0)
		d.call(began+8_000_000, auditrecord.SetSID, gone, 1, gone, 0)
		var got []string
		for _, ev := range settle(s) {
			if ev.PID == another {
				got = append(got, "another's "+ev.Kind.String())
			} else if ev.PID == gone {
				got = append(got, ev.Kind.String())
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("used again %v: the order is %v", c.reused, got)
		}
	}
	// A process that is there still, and does not end, has executed in another thread.
	s = offline(t)
	s.to = new(conform.Events)
	d = tell{s: s}
	child := sleeper(t)
	d.call(s.now(), auditrecord.ExitGroup, child, 1, 0, 3)
	d.call(s.now(), auditrecord.Exec, child, 1, 0, 0)
	if evs := settle(s); len(evs.Of(child, engine.KindExit)) != 0 {
		t.Errorf("%v", evs.Kinds(child))
	}
}

// What is stamped before the wall clock is set has no time but that of its receipt.
func TestWallClockSet(t *testing.T) {
	s := offline(t)
	s.to = new(conform.Events)
	d := tell{s: s}
	s.wall -= 3_600_000_000_000
	s.noteWall()
	before := s.now()
	s.wall += 3_600_000_000_000 // what the records are stamped with
	d.call(before, auditrecord.ExitGroup, 1<<22+5, 1, 0, 3)
	if ev := settle(s).One(t, 1<<22+5, engine.KindExit); ev.Time < before || ev.Time > s.now() {
		t.Errorf("stamped %d, not after %d", ev.Time, before)
	}
	// What the socket held meanwhile may be of before, however long it takes to read it.
	s.stepped -= settling
	s.noted = s.stepped - 1
	d.call(before-3_600_000_000_000, auditrecord.ExitGroup, 1<<22+6, 1, 0, 3)
	if at := s.queue.events[0].stamp; at < before {
		t.Errorf("stamped %d, not after %d", at, before)
	}
}

func TestSerials(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint32
		lost    uint64
	}{
		{"none", nil, 0},
		{"in order", []uint32{7, 7, 8, 9}, 0},
		{"out of order", []uint32{7, 9, 8, 10}, 0},
		{"two are missing", []uint32{7, 9, 11}, 2},
		{"over the end", []uint32{1<<32 - 1, 0, 2}, 1},
		{"an early one at the start", []uint32{7, 5, 8}, 0},
		{"of another count", []uint32{7, 1 << 30, 1<<30 + 1}, 0},
	} {
		s := serials{missed: make(map[uint32]hole)}
		for i, n := range c.numbers {
			s.saw(n, hole{seen: uint64(i + 1)})
		}
		var l loss
		if s.settle(&l, 0); l.n != 0 {
			t.Errorf("%s: %d lost too early", c.name, l.n)
		}
		if s.settle(&l, 100); l.n != c.lost || s.lost != c.lost {
			t.Errorf("%s: %d lost, not %d", c.name, l.n, c.lost)
		}
	}
}

// Of what the socket dropped the gap begins before the drop, also if more was dropped before the
// numbers came that show which events are missing.
func TestDropsAreTold(t *testing.T) {
	s := offline(t)
	s.finishing, s.hold, s.fd = false, 10, -1
	at := uint64(1000)
	s.now = func() uint64 { return at }
	var evs conform.Events
	s.to = &evs
	check := func(time uint64) {
		at = time
		s.noteDrops()
		s.checkLoss(loss{})
	}
	saw := func(n uint32) { s.serials.saw(n, s.missing(at)) }
	s.idle = 1000
	saw(1)
	for _, grown := range []uint64{2000, 2005} { // dropped since the socket was last empty
		s.drops = 1 // that of no socket is 0
		check(grown)
		s.idle, s.noted = grown, grown
		s.drops = 0
	}
	saw(5)
	if check(2006); len(evs) != 0 || len(s.dropped) != 2 {
		t.Fatalf("%d told at once, %d drops", len(evs), len(s.dropped))
	}
	s.noted = 2030
	if check(2030); len(evs) != 1 || evs[0].Gap.From > 1000 || evs[0].Gap.To < 2005 || evs[0].Gap.Count != 3 || evs[0].Gap.Cause != engine.LossSocketFull {
		t.Fatalf("%+v", evs)
	}
	s.idle = 2030
	check(2050)
	saw(6)
	if check(2051); len(evs) != 1 || len(s.dropped) != 0 {
		t.Errorf("%d drops are not told after a later number", len(s.dropped))
	}
}

// What the socket held when it dropped messages is read later, and no number of after the drop.
func TestDropIsKeptUntilLaterNumbers(t *testing.T) {
	s := offline(t)
	s.finishing, s.hold, s.fd = false, 10, -1
	at := uint64(1000)
	s.now = func() uint64 { return at }
	var evs conform.Events
	s.to, s.idle = &evs, 1000
	saw := func(n uint32, time uint64) {
		at = time
		s.serials.saw(n, s.missing(at))
	}
	empty := func(time uint64) {
		at, s.idle, s.noted = time, time, time
		s.checkLoss(loss{})
	}
	saw(1, 1000)
	at, s.drops = 2000, 1
	s.noteDrops()
	saw(2, 2100)
	empty(2110)
	saw(5, 9000)
	if empty(9100); len(evs) != 1 || evs[0].Gap.From > 1000 || evs[0].Gap.Count != 2 || evs[0].Gap.Cause != engine.LossSocketFull {
		t.Errorf("%d gaps: %+v", len(evs), evs)
	}
}

// An event of which a record is lost is counted, unless that of the call has come.
func TestPartOfEvent(t *testing.T) {
	s := offline(t)
	s.to = new(conform.Events)
	d := tell{s: s}
	d.record(auditrecord.Path, 5, s.now(), `item=0 name="/bin/true"`)
	var evs conform.Events
	s.to = &evs
	s.noted = s.now()
	if lost := s.settle(true, true).n; lost != 1 || len(evs) != 0 || len(s.queue.events) != 0 || len(s.open) != 0 {
		t.Errorf("%d lost, %d events", lost, len(evs))
	}
}

// The kernel's count of lost records is told as far as it is of what did not come.
func TestBacklog(t *testing.T) {
	for _, c := range []struct {
		exact bool
		read  uint64
		lost  uint32
		pid   uint32
		want  uint64
	}{{true, 100, 7, 0, 7}, {false, 100, 100, 0, 0}, {false, 100, 107, 0, 7}, {true, 100, 100, 99, 0}} {
		s := offline(t)
		var evs conform.Events
		s.to = &evs
		s.backlog = backlog{exact: c.exact, first: 1<<32 - 5, read: c.read}
		for range 2 {
			s.tellBacklog(&auditrule.Status{Lost: 1<<32 - 5 + c.lost, PID: c.pid}, s.now())
		}
		if st, _ := s.Stats(); st.Lost[engine.LossScratch] != c.want || len(evs) != min(1, int(c.want)) {
			t.Errorf("%+v: %d lost, %d gaps", c, st.Lost[engine.LossScratch], len(evs))
		}
	}
}

// The rules are as the options want them, and each has the key.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		kinds engine.Events
		calls map[auditrecord.Call]bool
	}{
		{0, map[auditrecord.Call]bool{auditrecord.Exec: true, auditrecord.Clone: false, auditrecord.Fork: true, auditrecord.Exit: false, auditrecord.ExitGroup: false, auditrecord.SetUID: true}},
		{engine.EventExec | engine.EventExecFailed, map[auditrecord.Call]bool{auditrecord.Exec: false, auditrecord.Clone: true}},
		{engine.EventFork, map[auditrecord.Call]bool{auditrecord.Exec: true, auditrecord.Clone: true}},
	} {
		rules := wanted(&source.Options{Kinds: c.kinds}, "key")
		got := make(map[auditrecord.Call]bool) // and whether only successful ones
		for _, r := range rules {
			if r.Key() != "key" || r.List != auditrule.ListExit || r.Action != auditrule.Always || len(r.Fields) < 2 {
				t.Errorf("%+v", r)
			}
			abi := auditrecord.ABI(r.Fields[0].Value)
			for _, n := range abi.Numbers(func(auditrecord.Call) bool { return true }) {
				if r.Selects(n) {
					got[abi.Call(n)] = r.Fields[1].Field == auditrule.FieldSuccess
				}
			}
		}
		for call, success := range c.calls {
			if only, some := got[call]; !some || only != success {
				t.Errorf("%v: call %d is there %v, only if it succeeds %v", c.kinds, call, some, only)
			}
		}
		for call := range got {
			if _, ok := c.calls[call]; !ok && call <= auditrecord.ExitGroup && (call == auditrecord.Exit || call == auditrecord.ExitGroup) {
				t.Errorf("%v: call %d", c.kinds, call)
			}
		}
	}
}

func TestHides(t *testing.T) {
	exec := auditrule.Rule{List: auditrule.ListExit, Action: auditrule.Never}
	_, nr := native(auditrecord.Exec)
	exec.Select(nr)
	all := exec
	all.Action = auditrule.Always
	for _, c := range []struct {
		name string
		rule auditrule.Rule
		note string
		err  bool
	}{
		{"task,never", auditrule.Rule{List: auditrule.ListTask, Action: auditrule.Never}, "", true},
		{"of some tasks", auditrule.Rule{List: auditrule.ListTask, Action: auditrule.Never, Fields: []auditrule.Field{{Field: 1}}}, "new processes", false},
		{"no SYSCALL", auditrule.Rule{List: auditrule.ListExclude, Fields: []auditrule.Field{{Field: auditrule.FieldMsgType, Value: 1300}}}, "", true},
		{"no EXECVE", auditrule.Rule{List: auditrule.ListExclude, Fields: []auditrule.Field{{Field: auditrule.FieldMsgType, Value: 1309}}}, "some records", false},
		{"no CWD", auditrule.Rule{List: auditrule.ListExclude, Fields: []auditrule.Field{{Field: auditrule.FieldMsgType, Value: 1307}}}, "", false},
		{"no execs", exec, "some of the system calls", false},
		{"all execs", all, "", false},
	} {
		note, err := hides(&c.rule)
		if (err != nil) != c.err || err != nil && !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(note, c.note) || c.note == "" && note != "" {
			t.Errorf("%s: %q, %v", c.name, note, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, size := range []int{-1, 2 << 30} {
		wrong := new(engine.OptionError)
		if err := Validate(Options{ReceiveBuffer: size}); !errors.As(err, &wrong) || wrong.Option != "ReceiveBuffer" {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := Open(source.Options{Threads: true}, Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("threads: %v", err)
	}
}

// FuzzMessage gives a source any message, and any record of an event that is under way. The seeds
// are records of a guest.
func FuzzMessage(f *testing.F) {
	b, err := os.ReadFile("testdata/messages")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var kind uint16
		var text string
		if _, err := fmt.Sscanf(string(line), "%d %q", &kind, &text); err != nil {
			f.Fatal(err)
		}
		f.Add(kind, text)
	}
	f.Fuzz(func(t *testing.T, kind uint16, text string) {
		s := offline(t)
		var evs conform.Events
		s.to = &evs
		d := tell{s: s}
		for _, c := range []auditrecord.Call{auditrecord.Exec, auditrecord.Clone, auditrecord.ExitGroup} {
			d.call(s.now(), c, 1<<22+5, 1, 0, 0)
			m := make([]byte, unix.SizeofNlMsghdr)
			binary.NativeEndian.PutUint16(m[4:], kind)
			s.message(append(m, text...))
			d.record(auditrecord.Type(kind), d.serial, s.now(), text)
		}
		s.look()
		s.settle(true, true)
		if st, err := s.Stats(); err != nil || len(s.queue.events) != 0 {
			t.Errorf("%+v, %v, %d events are left", st, err, len(s.queue.events))
		}
	})
}

func TestTick(t *testing.T) {
	if tick := clock.Tick(); tick < 1_000_000 || tick > 10_000_000 {
		t.Errorf("%d ns", tick)
	}
}
