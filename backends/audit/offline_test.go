package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

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

// newOfflineSource returns a source without a socket, and its sink. The source reads this machine's
// /proc.
func newOfflineSource(t testing.TB) (*Source, *conform.Events) {
	t.Helper()
	s := newSource(source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	proc, err := procfs.Open()
	if err != nil {
		t.Skip(err)
	}
	evs := new(conform.Events)
	s.proc, s.to, s.last = proc, evs, s.last-1e9
	t.Cleanup(func() { proc.Close() })
	return s, evs
}

// nativeCall returns the ABI and the number of a system call on this machine.
func nativeCall(c auditrecord.Call) (arch auditrecord.ABI, number uint32) {
	arch, number = auditrecord.Native(runtime.GOARCH)[0], 1<<20
	for n, o := range arch.Calls() {
		if o == c {
			number = min(number, n)
		}
	}
	return arch, number
}

// feed sends records with increasing serial numbers to a source.
type feed struct {
	s      *Source
	serial uint32
}

func (d *feed) record(kind auditrecord.Type, serial uint32, at uint64, body string) {
	ms := (int64(at) + d.s.wall.offset) / 1_000_000
	d.s.add(kind, fmt.Appendf(nil, "audit(%d.%03d:%d): %s", ms/1000, ms%1000, serial, body))
}

// call sends the records of a system call.
func (d *feed) call(at uint64, c auditrecord.Call, pid, ppid int, result int64, a0 uint64, others ...string) {
	d.serial++
	arch, nr := nativeCall(c)
	outcome := fmt.Sprintf("success=%s exit=%d ", map[bool]string{true: "yes", false: "no"}[result >= 0], result)
	if c == auditrecord.ExitGroup {
		outcome = ""
	}
	d.record(auditrecord.Syscall, d.serial, at, fmt.Sprintf(`arch=%x syscall=%d %sa0=%x a1=0 a2=0 a3=0 items=0 ppid=%d pid=%d auid=1000 `+
		`uid=1 gid=2 euid=3 suid=4 fsuid=3 egid=5 sgid=6 fsgid=5 tty=(none) ses=7 comm="sh" exe="/bin/sh" subj=kernel key="quark"`, arch, nr, outcome, a0, ppid, pid))
	for _, o := range others {
		kind := auditrecord.Path
		if strings.HasPrefix(o, "argc") {
			kind = auditrecord.Execve
		}
		d.record(kind, d.serial, at, o)
	}
	d.record(auditrecord.EndOfEvent, d.serial, at, "")
}

// concludeAll ends the hold time of all queued events, and returns the new events in the sink.
func (d *feed) concludeAll() conform.Events {
	evs := d.s.to.(*conform.Events)
	n := len(*evs)
	d.s.readProcesses()
	d.s.socket.empty = d.s.now() + defaultHold
	d.s.conclude(true)
	return (*evs)[n:]
}

// startSleeper starts a process that waits until the end of the test, and returns its pid.
func startSleeper(t *testing.T) int {
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

// A child can act before clone(2) returns in its parent. Its FORK is still delivered first.
func TestForkBeforeEventsOfChild(t *testing.T) {
	s, _ := newOfflineSource(t)
	me := os.Getpid()
	at := s.now()
	child := startSleeper(t)
	d := feed{s: s}
	d.call(at, auditrecord.Exec, child, me, 0, 0, `argc=2 a0="/bin/sh" a1=612062`, `item=0 name="/bin/sh" inode=1`, `item=1 name="/lib/ld" inode=2`)
	d.call(at, auditrecord.ExitGroup, 1<<22+1, 1, 0, 3) // of an unknown process
	d.call(at, auditrecord.Clone, me, os.Getppid(), int64(child), uint64(unix.SIGCHLD))
	evs := d.concludeAll()
	fork, exec := evs.One(t, child, engine.KindFork), evs.One(t, child, engine.KindExec)
	if slices.Index(evs, fork) != 0 || slices.Index(evs, exec) != 1 || fork.Time > exec.Time || fork.Time < at-1e6 || fork.Time > s.now() {
		t.Errorf("got order %v, times %d and %d, the call began at %d", evs.Kinds(child), fork.Time, exec.Time, at)
	}
	want := engine.Credentials{UID: 1, EUID: 3, SUID: 4, GID: 2, EGID: 5, SGID: 6}
	for _, ev := range []*engine.RawEvent{fork, exec} {
		if ev.Task.PPID != uint32(me) || ev.Task.Cred != want || ev.Task.Login != (engine.Login{UID: 1000, Session: 7}) {
			t.Errorf("%v: got wrong ids in %+v", ev.Kind, ev.Task)
		}
		if of := engine.FieldsIDs | engine.SetOf(engine.FieldPPID, engine.FieldLogin); ev.Task.Known&^ev.Task.Cached&of != of {
			t.Errorf("%v: got known %v, cached %v, want all ids known and not cached", ev.Kind, ev.Task.Known, ev.Task.Cached)
		}
	}
	if fork.Creator != uint32(me) || fork.Task.ParentSignal != uint32(unix.SIGCHLD) || !fork.Task.Known.Has(engine.FieldStart) {
		t.Errorf("got FORK %+v", fork)
	}
	if string(exec.Bytes(engine.FieldArgs)) != "/bin/sh\x00a b\x00" || string(exec.Bytes(engine.FieldExecPath)) != "/bin/sh" ||
		string(exec.Bytes(engine.FieldExe)) != "/bin/sh" || exec.Task.Cached.Has(engine.FieldExe) {
		t.Errorf("got arguments %q, path %q, executable %q", exec.Bytes(engine.FieldArgs), exec.Bytes(engine.FieldExecPath), exec.Bytes(engine.FieldExe))
	}
}

// The events of the threads of a process are delivered in order, then its EXIT. If a thread
// executes, the process goes on.
func TestOrder(t *testing.T) {
	const pid, other, birth = 1<<22 + 5, 1<<22 + 6, 1<<22 + 7
	type call struct {
		pid    int
		c      auditrecord.Call
		result int64
	}
	end := call{pid, auditrecord.ExitGroup, 0}
	for _, c := range []struct {
		name  string
		step  uint64 // ns between two calls
		calls []call
		want  string
	}{
		{"threads finish", 0, []call{end, {other, auditrecord.Exec, 0}, {pid, auditrecord.SetSID, pid}}, "EXEC, ID_CHANGE, EXIT"},
		{"a thread executes", 4e6, []call{end, {pid, auditrecord.Exec, 0}, {pid, auditrecord.SetSID, pid}}, "EXEC, ID_CHANGE"},
		{"it executes, and ends", 4e6, []call{end, {pid, auditrecord.Exec, 0}, end}, "EXEC, EXIT"},
		{"the pid is used again", 4e6, []call{{pid, auditrecord.Exec, 0}, end, {1, auditrecord.Clone, pid}, {pid, auditrecord.SetSID, pid}}, "EXEC, EXIT, FORK, ID_CHANGE"},
		{"a child acts before its birth", 0, []call{{birth, auditrecord.SetSID, birth}, {1, auditrecord.Clone, birth}}, "FORK, ID_CHANGE"},
		{"births of two", 0, []call{{birth, auditrecord.SetSID, birth}, {other, auditrecord.Clone3, birth}, {1, auditrecord.Clone, other}}, "FORK, ID_CHANGE"},
	} {
		s, _ := newOfflineSource(t)
		d, at := feed{s: s}, s.now()-20e6
		for _, o := range c.calls {
			d.call(at, o.c, o.pid, 1, o.result, 0, `argc=1 a0="x"`)
			at += c.step
		}
		var got []string
		for _, ev := range d.concludeAll() {
			got = append(got, ev.Kind.String())
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

// The processes that reuse a pid are delivered one after the other, even if /proc shows none of
// them and the records of the forks arrive last.
func TestReuse(t *testing.T) {
	const pid, parent = 1<<22 + 7, 1<<22 + 5
	s, _ := newOfflineSource(t)
	d := feed{s: s}
	at := s.now()
	for i := range 4 {
		d.call(at, auditrecord.Exec, pid, parent, 0, 0, `argc=1 a0="x"`, `item=0 name="x"`)
		d.call(at, auditrecord.ExitGroup, pid, parent, 0, uint64(i))
		d.call(at, auditrecord.Clone3, parent, 1, pid, 0)
	}
	var got []string
	for _, ev := range d.concludeAll() {
		got = append(got, fmt.Sprint(ev.Kind, ev.Task.Exit.Code()))
	}
	if want := "EXEC 0,EXIT 0,EXEC 0,EXIT 1,EXEC 0,EXIT 2,EXEC 0,EXIT 3"; strings.Join(got, ",") != want {
		t.Errorf("got events %q, want %s", got, want)
	}
}

// A fork is reported for the returned pid only if /proc shows the child or, after clone(2), the
// caller.
func TestForkOfUncertainPID(t *testing.T) {
	me := os.Getpid()
	for _, c := range []struct {
		name   string
		call   auditrecord.Call
		flags  uint64
		caller int
		child  func(*testing.T) int
		want   bool
	}{
		{"waiting child", auditrecord.Clone, uint64(unix.SIGCHLD), me, startSleeper, true},
		{"waiting child of clone3, whose flags are not in the record", auditrecord.Clone3, 0, me, startSleeper, true},
		{"child not in /proc, caller in /proc", auditrecord.Clone, uint64(unix.SIGCHLD), 1, func(*testing.T) int { return 1<<22 + 7 }, true},
		{"child of clone3 not in /proc", auditrecord.Clone3, 0, 1, func(*testing.T) int { return 1<<22 + 7 }, false},
		{"child and caller not in /proc", auditrecord.Clone, uint64(unix.SIGCHLD), 1<<22 + 5, func(*testing.T) int { return 1<<22 + 7 }, false},
		{"older process with the pid, caller not in /proc", auditrecord.Clone, uint64(unix.SIGCHLD), 1<<22 + 5, func(*testing.T) int { return 1 }, false},
		{"a thread", auditrecord.Clone, unix.CLONE_THREAD, me, startSleeper, false},
	} {
		s, _ := newOfflineSource(t)
		at := s.now()
		child := c.child(t)
		d := feed{s: s}
		d.call(at, c.call, c.caller, 1, int64(child), c.flags)
		if got := len(d.concludeAll().Of(child, engine.KindFork)) == 1; got != c.want {
			t.Errorf("%s: got FORK %v, want %v", c.name, got, c.want)
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
		s, _ := newOfflineSource(t)
		d := feed{s: s}
		d.call(s.now(), c.call, 1<<22+5, 1, -int64(unix.ENOENT), c.fd, "item=0 name="+c.name+" nametype=UNKNOWN", `item=1 name="/other"`)
		ev := d.concludeAll().One(t, 1<<22+5, engine.KindExecFailed)
		got := "?"
		if ev.Task.Known.Has(engine.FieldExe) {
			got = string(ev.Bytes(engine.FieldExe))
		}
		if got != c.want || ev.Errno != uint16(unix.ENOENT) {
			t.Errorf("call %d, descriptor %#x, %s: got path %q, error %d", c.call, c.fd, c.name, got, ev.Errno)
		}
	}
}

// A call that only checks whether a file may be executed is not an exec.
func TestExecCheck(t *testing.T) {
	s, _ := newOfflineSource(t)
	d := feed{s: s}
	d.call(s.now(), auditrecord.ExecAt, 1<<22+5, 1, 0, 7, `item=0 name="true"`)
	if evs := d.concludeAll(); len(evs) != 0 {
		t.Errorf("%v", evs.Kinds(1<<22+5))
	}
}

// If the record of the arguments may be lost, the EXEC lacks the arguments and the executable.
func TestExecOfLostArguments(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(s *Source)
		lost   uint64
	}{
		"a check":             {func(*Source) {}, 0},
		"dropped since":       {func(s *Source) { s.loss.at = s.now() }, 1},
		"a number is missing": {func(s *Source) { d := feed{s, 2}; d.call(s.now(), auditrecord.SetSID, 1, 0, -1, 0) }, 2},
		"the last is missing": {func(s *Source) { s.queue.events[0].state = known }, 1},
	} {
		s, evs := newOfflineSource(t)
		d := feed{s: s}
		d.call(s.now(), auditrecord.ExecAt, 1<<22+5, 1, 0, 7, `item=0 name="true"`)
		c.break_(s)
		d.concludeAll()
		if st, _ := s.Stats(); st.LostTotal() != c.lost || len(*evs) != min(1, int(c.lost)) {
			t.Errorf("%s: got %d lost, want %d; %d events", name, st.LostTotal(), c.lost, len(*evs))
		}
	}
}

// The parent can lose its CPU before clone(2) returns. Then the FORK has the start time of the
// call, unless the child has already been reported.
func TestForkOfLongCall(t *testing.T) {
	for _, did := range []bool{false, true} {
		s, _ := newOfflineSource(t)
		d, at := feed{s: s}, s.now()-100e6
		child, other := startSleeper(t), startSleeper(t)
		told := other
		if did {
			told = child
		}
		d.call(at+90e6, auditrecord.SetSID, told, os.Getpid(), int64(told), 0)
		before := d.concludeAll().One(t, told, engine.KindIDChange).Time
		d.call(at, auditrecord.Clone, os.Getpid(), 1, int64(child), uint64(unix.SIGCHLD))
		births := d.concludeAll().Of(child, engine.KindFork)
		if want := map[bool]int{false: 1, true: 0}[did]; len(births) != want || want == 1 && (births[0].Time > before || births[0].Creator != uint32(os.Getpid())) {
			t.Errorf("got %d FORKs of %v, child reported before: %v", len(births), births, did)
		}
	}
}

// After a lost record, values from /proc may belong to a later process or image.
func TestReadAfterLoss(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(s *Source)
		want   bool
	}{
		"nothing is lost":     {func(*Source) {}, true},
		"long before":         {func(s *Source) { s.loss.at = 1 }, true},
		"since":               {func(s *Source) { s.loss.at = s.now() }, false},
		"a number is missing": {func(s *Source) { d := feed{s, 2}; d.call(s.now(), auditrecord.SetSID, 1, 0, -1, 0) }, false},
		"the pid is used again": {func(s *Source) {
			d := feed{s, 1}
			d.call(s.now(), auditrecord.Clone3, 1, 0, int64(s.queue.events[0].pid), 0)
		}, false},
	} {
		s, _ := newOfflineSource(t)
		d, at := feed{s: s}, s.now()-5e6 // stamps have milliseconds
		child := startSleeper(t)
		d.call(at, auditrecord.Exec, child, 1, 0, 0)
		s.readProcesses()
		c.break_(s)
		if got := d.concludeAll().One(t, child, engine.KindExec).Task.Known.Has(engine.FieldExeFile); got != c.want {
			t.Errorf("%s: got known fields %v", name, got)
		}
	}
}

// An exec that fails after its point of no return kills the process. It is not an event.
func TestExecFailsAfterPointOfNoReturn(t *testing.T) {
	s, _ := newOfflineSource(t)
	d := feed{s: s}
	d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, -int64(unix.ENOMEM), 0)
	d.serial++
	d.record(auditrecord.Abend, d.serial, s.now(), fmt.Sprintf(`auid=1 uid=0 gid=0 ses=1 pid=%d comm="x" exe="/x" sig=11 res=1`, 1<<22+5))
	if evs := d.concludeAll(); len(evs) != 0 {
		t.Errorf("%v", evs.Kinds(1<<22+5))
	}
}

// Audit also records EINTR for a call that the kernel restarts, and for a call whose thread is
// killed. The records do not show which, so an exec with EINTR is no event.
func TestInterruptedExec(t *testing.T) {
	for errno, want := range map[unix.Errno]int{unix.EINTR: 0, unix.ENOENT: 1} {
		s, _ := newOfflineSource(t)
		d := feed{s: s}
		d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, -int64(errno), 0, `item=0 name="/bin/x"`)
		if evs := d.concludeAll(); len(evs) != want {
			t.Errorf("%v: got %d events", errno, len(evs))
		}
	}
}

// Records of user programs and logins have serial numbers too. They are not counted as lost.
func TestOtherRecords(t *testing.T) {
	s, _ := newOfflineSource(t)
	d := feed{s: s}
	for i, kind := range []auditrecord.Type{1100, 1005, 1006, 1199, 1400, 2100, 2999} {
		d.record(kind, uint32(i+1), s.now(), "pid=1 uid=0 auid=1 ses=1 msg='x'")
	}
	if evs := d.concludeAll(); len(evs) != 0 {
		t.Errorf("got a gap of %d events", evs[0].Gap.Count)
	}
}

// If another program disables audit, Populate delivers the earlier events before it returns the
// error.
func TestDeliverBeforeError(t *testing.T) {
	s, evs := newOfflineSource(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	s.socket.fd, s.changed.disabled = fds[0], true
	d := feed{s: s}
	d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, 0, 0, `argc=1 a0="/bin/sh"`)
	if err := s.Populate(evs); err == nil {
		t.Error("Populate returned no error")
	}
	evs.One(t, 1<<22+5, engine.KindExec)
}

// The status of a process is the argument of exit_group, and unknown if its threads passed
// different arguments. If /proc still shows the process, no EXIT is reported.
func TestExitStatus(t *testing.T) {
	const gone = 1<<22 + 5
	for _, c := range []struct {
		name   string
		pid    int
		status []uint64
		lost   bool
		ends   int
		want   int32 // -1 for unknown
	}{
		{"exit_group", gone, []uint64{3}, false, 1, 0x300},
		{"two threads, the same status", gone, []uint64{3, 3}, false, 1, 0x300},
		{"two threads, different status", gone, []uint64{3, 4}, false, 1, -1},
		{"lost record", gone, []uint64{3}, true, 1, -1},
		{"process still in /proc", os.Getpid(), []uint64{3}, false, 0, 0},
	} {
		s, _ := newOfflineSource(t)
		d := feed{s: s}
		for _, a0 := range c.status {
			d.call(s.now(), auditrecord.ExitGroup, c.pid, 1, 0, a0)
		}
		if c.lost {
			s.loss.at = s.now()
		}
		ends := d.concludeAll().Of(c.pid, engine.KindExit)
		if len(ends) != c.ends {
			t.Errorf("%s: got %d EXITs, want %d", c.name, len(ends), c.ends)
		}
		for _, ev := range ends {
			x := &ev.Task
			if known := x.Known.Has(engine.FieldExit); known != (c.want >= 0) || known && (x.Exit.WaitStatus != c.want || !x.Cached.Has(engine.FieldExit)) {
				t.Errorf("%s: got known %v, status %#x", c.name, known, x.Exit.WaitStatus)
			}
		}
	}
}

// If the wall clock was changed, an event with a stamp from before the change gets a time between
// the previous event and its receipt.
func TestWallClockSet(t *testing.T) {
	for _, by := range []int64{3_600_000_000_000, -3_600_000_000_000} {
		s, _ := newOfflineSource(t)
		d := feed{s: s}
		before := s.last
		s.wall.offset -= by
		s.wall.update()
		s.wall.offset -= by // clock of the records
		d.call(s.now(), auditrecord.ExitGroup, 1<<22+5, 1, 0, 3)
		s.wall.update()
		d.call(s.now(), auditrecord.ExitGroup, 1<<22+6, 1, 0, 3)
		evs := d.concludeAll()
		for pid := 1<<22 + 5; pid < 1<<22+7; pid++ {
			if ev := evs.One(t, pid, engine.KindExit); ev.Time < before || ev.Time > s.now() {
				t.Errorf("got time %d, want one between %d and now", ev.Time, before)
			}
		}
	}
}

// Each missing serial number is a lost event.
func TestMissingSerials(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint32
		dropped bool
		lost    uint64
	}{
		{"none", nil, false, 0},
		{"in order", []uint32{7, 7, 8, 9}, false, 0},
		{"out of order", []uint32{7, 9, 8, 10}, false, 0},
		{"two are missing", []uint32{7, 9, 11}, false, 2},
		{"two are dropped", []uint32{7, 10}, true, 2},
		{"wrapped around", []uint32{1<<32 - 1, 0, 2}, false, 1},
		{"a lower number at the start", []uint32{7, 5, 6, 8}, false, 0},
	} {
		s, evs := newOfflineSource(t)
		d := feed{s: s}
		before := s.now()
		for _, n := range c.numbers {
			d.serial = n - 1
			d.call(s.now(), auditrecord.Exec, 1<<22+5, 1, 0, 0)
		}
		cause := engine.LossScratch
		if c.dropped {
			s.loss.drops = 1 // without a socket, no count to read
			s.checkDrops()
			cause = engine.LossSocketFull
		}
		d.concludeAll()
		gaps := evs.Of(0, engine.KindGap)
		if st, _ := s.Stats(); st.LostTotal() != c.lost || st.Lost[cause] != c.lost || len(gaps) != min(1, int(c.lost)) {
			t.Errorf("%s: got lost %v, %d gaps", c.name, st.Lost, len(gaps))
		} else if c.lost > 0 && (gaps[0].Gap.Count != c.lost || gaps[0].Gap.From > before || gaps[0].Gap.To < before) {
			t.Errorf("%s: got gap %+v", c.name, *gaps[0].Gap)
		}
	}
}

// A missing serial number is counted even after an event of a later number was delivered.
func TestMissingSerialBeforeFork(t *testing.T) {
	s, evs := newOfflineSource(t)
	d, at := feed{s: s}, s.now()
	child := startSleeper(t)
	d.call(at, auditrecord.SetSID, child, os.Getpid(), int64(child), 0)
	d.serial++
	d.call(at, auditrecord.Clone, os.Getpid(), 1, int64(child), uint64(unix.SIGCHLD))
	d.concludeAll()
	if st, _ := s.Stats(); st.LostTotal() != 1 || len(evs.Of(child, engine.KindFork)) != 1 || len(*evs) != 3 || len(s.queue.events) != 0 {
		t.Errorf("got %d lost, %d events", st.LostTotal(), len(*evs))
	}
}

// An event is delayed until all earlier events must have arrived.
func TestDelay(t *testing.T) {
	s, evs := newOfflineSource(t)
	at := s.now()
	s.now = func() uint64 { return at }
	d := feed{s, 1}
	d.call(at, auditrecord.Exec, 1<<22+5, 1, 0, 0)
	s.readProcesses()
	s.socket.empty = at + s.hold - 1
	if s.conclude(false); len(*evs) != 0 {
		t.Error("the event was delivered too early")
	}
	if _, ok := s.Held(); !ok {
		t.Error("Held reports no delayed event")
	}
	d.serial = 0
	d.call(at, auditrecord.Exec, 1<<22+6, 1, 0, 0)
	s.readProcesses()
	s.socket.empty++
	if s.conclude(false); len(*evs) != 2 || (*evs)[0].PID != 1<<22+6 {
		t.Errorf("got %d events", len(*evs))
	}
}

// An event with a lost record is counted as lost, unless the record of the call has arrived.
func TestPartOfEvent(t *testing.T) {
	s, evs := newOfflineSource(t)
	d := feed{s: s}
	d.record(auditrecord.Path, 5, s.now(), `item=0 name="/bin/true"`)
	d.concludeAll()
	if st, _ := s.Stats(); st.LostTotal() != 1 || len(*evs) != 1 || len(s.queue.events) != 0 {
		t.Errorf("got %d lost, %d events", st.LostTotal(), len(*evs))
	}
}

// The kernel reports the number of all dropped records, modulo 2^32. Two equal numbers add a loss
// once.
func TestBacklog(t *testing.T) {
	s, evs := newOfflineSource(t)
	s.loss.backlog.count = 1<<32 - 5
	for range 2 {
		s.countBacklog(2, s.now())
	}
	st, _ := s.Stats()
	if gaps := evs.Of(0, engine.KindGap); st.Lost[engine.LossScratch] != 7 || len(gaps) != 1 || gaps[0].Gap.Count != 7 {
		t.Errorf("got lost %v, %d gaps", st.Lost, len(gaps))
	}
}

// The rules match the options. Each rule has the key of the source.
func TestRulesOfOptions(t *testing.T) {
	const none, always, succeeded = "", "always", "succeeded"
	for _, c := range []struct {
		kinds engine.Events
		calls map[auditrecord.Call]string
	}{
		{0, map[auditrecord.Call]string{auditrecord.Exec: succeeded, auditrecord.Clone: succeeded, auditrecord.ExitGroup: always, auditrecord.SetSID: succeeded}},
		{engine.EventExec | engine.EventExecFailed, map[auditrecord.Call]string{auditrecord.Exec: always, auditrecord.Clone: succeeded, auditrecord.ExitGroup: none, auditrecord.SetSID: none}},
		{engine.EventFork, map[auditrecord.Call]string{auditrecord.Exec: succeeded, auditrecord.Clone: succeeded}},
	} {
		got := make(map[auditrecord.Call]string)
		for _, b := range wanted(&source.Options{Kinds: c.kinds}, "key") {
			r, err := auditrule.Parse(b)
			if err != nil || r.Key() != "key" || r.List != auditrule.ListExit || r.Action != auditrule.Always {
				t.Errorf("got rule %+v, error %v", r, err)
			}
			for n, call := range auditrecord.ABI(r.Fields[0].Value).Calls() {
				if !r.Selects(n) {
					continue
				}
				if got[call] = always; len(r.Fields) == 3 {
					got[call] = succeeded
				}
			}
		}
		for call, when := range c.calls {
			if got[call] != when {
				t.Errorf("%v: call %d: got %q, want %q", c.kinds, call, got[call], when)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for _, size := range []int{-1, 2 << 30} {
		wrong := new(engine.OptionError)
		if err := Validate(Options{ReceiveBuffer: size}); !errors.As(err, &wrong) || wrong.Option != "ReceiveBuffer" {
			t.Errorf("buffer of %d bytes: got error %v", size, err)
		}
	}
	if _, err := Open(source.Options{Threads: true}, Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("threads: got error %v", err)
	}
}

// FuzzMessage sends a source an arbitrary message, or an arbitrary record of an event that is not
// complete. The seeds are records from a guest.
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
		s, _ := newOfflineSource(t)
		d := feed{s: s}
		for _, c := range []auditrecord.Call{auditrecord.Exec, auditrecord.Clone, auditrecord.ExitGroup} {
			d.call(s.now(), c, 1<<22+5, 1, 0, 0)
			s.add(auditrecord.Type(kind), []byte(text))
			d.record(auditrecord.Type(kind), d.serial, s.now(), text)
		}
		d.concludeAll()
		if st, err := s.Stats(); err != nil || len(s.queue.events) != 0 {
			t.Errorf("got %+v, %v, %d events left", st, err, len(s.queue.events))
		}
	})
}

func TestClockTick(t *testing.T) {
	if tick := clock.Tick(); tick < 1_000_000 || tick > 10_000_000 {
		t.Errorf("got a tick of %d ns", tick)
	}
}
