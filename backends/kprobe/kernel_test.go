package kprobe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/tracefs"
	"golang.org/x/sys/unix"
)

// open opens a source on the running kernel, or skips.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to install probes")
	}
	if fs, err := tracefs.Open(); err == nil {
		p, err := fs.Probes()
		fs.Close()
		if err != nil {
			t.Skip(err)
		}
		p.Close()
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// drain returns all that is queued.
func drain(t testing.TB, s *Source) []*engine.RawEvent {
	t.Helper()
	var l list
	if err := s.populate(&l); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(l, func(a, b *engine.RawEvent) int { return cmp.Compare(a.Time, b.Time) })
	return l
}

// list is a sink without bound.
type list []*engine.RawEvent

func (l *list) Room() int                  { return 1000 }
func (l *list) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (l *list) Release(*engine.RawEvent)   {}
func (l *list) Insert(ev *engine.RawEvent) { *l = append(*l, ev) }

// of returns the events of one process and kind.
func of(evs []*engine.RawEvent, pid int, kind engine.Kind) (r []*engine.RawEvent) {
	for _, ev := range evs {
		if int(ev.PID) == pid && ev.Kind == kind {
			r = append(r, ev)
		}
	}
	return r
}

// one returns the only event of one process and kind.
func one(t *testing.T, evs []*engine.RawEvent, pid int, kind engine.Kind) *engine.RawEvent {
	t.Helper()
	r := of(evs, pid, kind)
	if len(r) != 1 {
		t.Fatalf("%d events %v of pid %d, not 1: %s", len(r), kind, pid, kindsOf(evs, pid))
	}
	return r[0]
}

func kindsOf(evs []*engine.RawEvent, pid int) string {
	var s []string
	for _, ev := range evs {
		if int(ev.PID) == pid {
			s = append(s, fmt.Sprintf("%v(tid %d, thread %v, %q %q)", ev.Kind, ev.TID, ev.Thread, ev.Bytes(engine.FieldComm), ev.Bytes(engine.FieldFilename)))
		}
	}
	return strings.Join(s, " ")
}

// run runs a command to its end and returns its output and what was seen.
func run(t *testing.T, s *Source, c *exec.Cmd) ([]byte, []*engine.RawEvent) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	drain(t, s)
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == 99 {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond) // the parent can be told before the tracepoint is through
	return out.Bytes(), drain(t, s)
}

func wantStatus(t *testing.T, ev *engine.RawEvent, c *exec.Cmd) {
	t.Helper()
	want := int32(c.ProcessState.Sys().(syscall.WaitStatus))
	if !ev.Task.Known.Has(engine.FieldExit) || ev.Task.Exit.WaitStatus != want {
		t.Errorf("wait status %#x, not %#x", ev.Task.Exit.WaitStatus, want)
	}
}

func wantText(t *testing.T, ev *engine.RawEvent, f engine.Field, want string) {
	t.Helper()
	if got := ev.Bytes(f); got == nil || string(got) != want || ev.Task.Truncated.Has(f) {
		t.Errorf("%v %v is %q (truncated %v), not %q", ev.Kind, f, got, ev.Task.Truncated.Has(f), want)
	}
}

// wantTruth compares an event with what the process saw of itself.
func wantTruth(t *testing.T, ev *engine.RawEvent, truth map[string]string) {
	t.Helper()
	if missing := (engine.AllFields &^ engine.FieldExit.Set()) &^ ev.Task.Known; missing != 0 && ev.Kind == engine.KindExec {
		t.Errorf("unknown: %v", missing)
	}
	num := func(v uint32) string { return strconv.FormatUint(uint64(v), 10) }
	k := &ev.Task
	got := map[string]string{
		"PPid": num(k.PPID), "pgid": num(k.PGID), "sid": num(k.SID),
		"Uid":    strings.Join([]string{num(k.Cred.UID), num(k.Cred.EUID), num(k.Cred.SUID), num(k.Cred.EUID)}, " "),
		"Gid":    strings.Join([]string{num(k.Cred.GID), num(k.Cred.EGID), num(k.Cred.SGID), num(k.Cred.EGID)}, " "),
		"CapInh": fmt.Sprintf("%016x", k.Caps.Inheritable), "CapPrm": fmt.Sprintf("%016x", k.Caps.Permitted),
		"CapEff": fmt.Sprintf("%016x", k.Caps.Effective), "CapBnd": fmt.Sprintf("%016x", k.Caps.Bounding),
		"CapAmb": fmt.Sprintf("%016x", k.Caps.Ambient),
		"uts":    num(k.NS.UTS), "ipc": num(k.NS.IPC), "mnt": num(k.NS.Mnt), "net": num(k.NS.Net),
		"start": strconv.FormatUint(k.Start/engine.ProcStartUnit, 10),
		"tty":   num(k.TTY.Major<<8 | k.TTY.Minor&0xff | k.TTY.Minor&^0xff<<12),
		"Name":  string(ev.Bytes(engine.FieldComm)),
	}
	if ev.Kind == engine.KindExec {
		got["exe"] = string(ev.Bytes(engine.FieldFilename))
		got["cwd"] = string(ev.Bytes(engine.FieldCwd))
		got["cmdline"] = string(ev.Bytes(engine.FieldCmdline))
		got["cgroup"] = string(ev.Bytes(engine.FieldCgroup))
		if k.Truncated != 0 {
			t.Errorf("truncated: %v", k.Truncated)
		}
	}
	for name, f := range map[string]engine.Field{
		"uts": engine.FieldUTSNS, "ipc": engine.FieldIPCNS, "mnt": engine.FieldMntNS, "net": engine.FieldNetNS,
	} {
		if !k.Known.Has(f) && ev.Kind == engine.KindExit {
			delete(got, name) // the leader ended before the last thread
		}
	}
	for name, v := range got {
		if v != truth[name] {
			t.Errorf("%v %s is %q, not %q", ev.Kind, name, v, truth[name])
		}
	}
}

func TestProcess(t *testing.T) {
	s := open(t, Options{})
	before := time.Now()
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	c := child("truth", "one", "", "three")
	out, evs := run(t, s, c)
	truth := parseTruth(t, out)
	pid := c.Process.Pid

	fork := one(t, evs, pid, engine.KindFork)
	if fork.Thread || int(fork.Creator) != os.Getpid() || int(fork.Task.PPID) != os.Getpid() || int(fork.TID) != pid {
		t.Errorf("fork: creator %d, ppid %d, tid %d, thread %v", fork.Creator, fork.Task.PPID, fork.TID, fork.Thread)
	}
	cwd, _ := os.Getwd()
	wantText(t, fork, engine.FieldCwd, cwd)
	wantText(t, fork, engine.FieldCgroup, truth["cgroup"])
	if fork.Bytes(engine.FieldFilename) != nil || fork.Bytes(engine.FieldCmdline) != nil {
		t.Error("fork knows an executable")
	}
	exec := one(t, evs, pid, engine.KindExec)
	wantTruth(t, exec, truth)
	exit := one(t, evs, pid, engine.KindExit)
	wantTruth(t, exit, truth)
	wantStatus(t, exit, c)
	if n := of(evs, pid, engine.KindComm); len(n) != 0 {
		t.Errorf("exec was reported as a rename too: %s", kindsOf(evs, pid))
	}
	start := uint64(ts.Nano())
	if !(start <= fork.Time && fork.Time < exec.Time && exec.Time < exit.Time && exit.Time <= start+uint64(time.Since(before))+uint64(time.Second)) {
		t.Errorf("times %d < %d < %d < %d", start, fork.Time, exec.Time, exit.Time)
	}
	if fork.Task.Start != exec.Task.Start || fork.Task.Start != exit.Task.Start {
		t.Error("the start time changed")
	}
}

func TestExitStatus(t *testing.T) {
	s := open(t, Options{})
	for _, end := range []string{"exit 0", "exit 5", "exit 255", "kill 9", "kill 15", "kill 11"} {
		c := child("end", strings.Fields(end)...)
		c.Dir = t.TempDir() // for the core
		_, evs := run(t, s, c)
		wantStatus(t, one(t, evs, c.Process.Pid, engine.KindExit), c)
	}
}

func TestLeaderExitsFirst(t *testing.T) {
	s := open(t, Options{})
	c := child("leader-first")
	_, evs := run(t, s, c)
	exit := one(t, evs, c.Process.Pid, engine.KindExit)
	wantStatus(t, exit, c)
	if int(exit.TID) != c.Process.Pid || exit.Task.Exit.Code() != 7 {
		t.Errorf("tid %d, code %d", exit.TID, exit.Task.Exit.Code())
	}
}

func TestExecFromThread(t *testing.T) {
	s := open(t, Options{})
	c := child("exec-thread")
	_, evs := run(t, s, c)
	if n := of(evs, c.Process.Pid, engine.KindExec); len(n) != 2 {
		t.Errorf("%d execs, not 2", len(n))
	}
	wantStatus(t, one(t, evs, c.Process.Pid, engine.KindExit), c)
	if n := of(evs, c.Process.Pid, engine.KindComm); len(n) != 0 {
		t.Errorf("exec was reported as a rename too")
	}
}

// TestEndTogether has all threads of a group end at once, where more than one
// sees itself as the last.
func TestEndTogether(t *testing.T) {
	s := open(t, Options{})
	for range 50 {
		c := child("end-together")
		_, evs := run(t, s, c)
		wantStatus(t, one(t, evs, c.Process.Pid, engine.KindExit), c)
	}
}

func TestThreads(t *testing.T) {
	s := open(t, Options{Threads: true})
	c := child("end-together")
	_, evs := run(t, s, c)
	pid := c.Process.Pid
	var born, ended, groups int
	for _, ev := range evs {
		switch {
		case int(ev.PID) != pid:
		case ev.Kind == engine.KindFork && ev.Thread:
			born++
			if int(ev.Creator) != pid || ev.TID == ev.PID {
				t.Errorf("thread %d of %d created by %d", ev.TID, ev.PID, ev.Creator)
			}
		case ev.Kind == engine.KindExit && ev.Thread:
			ended++
		case ev.Kind == engine.KindExit:
			groups++
		}
	}
	// One thread's end is that of the group.
	if born < 5 || ended != born || groups != 1 {
		t.Errorf("%d threads born, %d ended, %d groups ended", born, ended, groups)
	}
}

func TestIDChange(t *testing.T) {
	s := open(t, Options{})
	if c := s.Capabilities().Kinds[engine.KindIDChange]; c.Origin == engine.OriginNone {
		t.Skip("no ID_CHANGE: " + c.Via)
	}
	c := child("set-ids")
	// The Go runtime starts it as a group leader's child: setsid works.
	_, evs := run(t, s, c)
	got := of(evs, c.Process.Pid, engine.KindIDChange)
	if len(got) != 3 {
		t.Fatalf("%d changes, not 3: %s", len(got), kindsOf(evs, c.Process.Pid))
	}
	for i, want := range []engine.IDChange{engine.ChangedGID, engine.ChangedUID, engine.ChangedSID} {
		if got[i].IDChange != want {
			t.Errorf("change %d is %v, not %v", i, got[i].IDChange, want)
		}
	}
	if got, want := got[2].Task.Cred, (engine.Credentials{UID: 21, EUID: 22, SUID: 23, GID: 11, EGID: 12, SGID: 13}); got != want {
		t.Errorf("ids are %v, not %v", got, want)
	}
	if c := got[0].Task.Cred; c.UID != 0 || c.EGID != 12 {
		t.Errorf("ids after setresgid: %v", c)
	}
	if got[2].Task.SID != uint32(c.Process.Pid) || got[2].Task.PGID != uint32(c.Process.Pid) {
		t.Errorf("session %d, group %d", got[2].Task.SID, got[2].Task.PGID)
	}
}

// TestSetFSUID must not be reported, as none of quark's ids changes.
func TestSetFSUID(t *testing.T) {
	s := open(t, Options{})
	if c := s.Capabilities().Kinds[engine.KindIDChange]; c.Origin == engine.OriginNone {
		t.Skip("no ID_CHANGE: " + c.Via)
	}
	wantOnlySaved(t, s)
}

// wantOnlySaved wants the one true change of set-fs-ids.
func wantOnlySaved(t *testing.T, s *Source) {
	t.Helper()
	c := child("set-fs-ids")
	_, evs := run(t, s, c)
	got := of(evs, c.Process.Pid, engine.KindIDChange)
	if len(got) != 1 || got[0].IDChange != engine.ChangedUID || got[0].Task.Cred.SUID != 7 || got[0].Task.Cred.UID != 0 {
		t.Errorf("%d changes, not 1: %s", len(got), kindsOf(evs, c.Process.Pid))
	}
}

func TestRename(t *testing.T) {
	s := open(t, Options{})
	c := child("rename")
	_, evs := run(t, s, c)
	wantText(t, one(t, evs, c.Process.Pid, engine.KindComm), engine.FieldComm, "new name")
}

func TestWorkingDirectory(t *testing.T) {
	s := open(t, Options{})
	for _, depth := range []int{0, 1, 2} {
		c := child("deep", strconv.Itoa(depth))
		c.Dir = t.TempDir()
		out, evs := run(t, s, c)
		execs := of(evs, c.Process.Pid, engine.KindExec)
		if len(execs) != 2 {
			t.Fatalf("%d execs", len(execs))
		}
		wantTruth(t, execs[1], parseTruth(t, out))
	}
	// The process has ended when the record is read: /proc can't help.
	t.Run("too deep", func(t *testing.T) {
		c := child("deep", "90")
		c.Dir = t.TempDir()
		_, evs := run(t, s, c)
		ev := of(evs, c.Process.Pid, engine.KindExec)[1]
		if got := string(ev.Bytes(engine.FieldCwd)); !ev.Task.Truncated.Has(engine.FieldCwd) || !strings.HasSuffix(got, "/d86/d87/d88/d89") || got[0] == '/' {
			t.Errorf("%q, truncated %v", got, ev.Task.Truncated)
		}
	})
	t.Run("long names", func(t *testing.T) {
		dir := t.TempDir()
		c := child("exit")
		c.Dir = dir
		for range 15 {
			c.Dir = filepath.Join(c.Dir, strings.Repeat("x", 250))
		}
		if err := os.MkdirAll(c.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, evs := run(t, s, c)
		ev := one(t, evs, c.Process.Pid, engine.KindExec)
		if got := string(ev.Bytes(engine.FieldCwd)); len(got) < 1000 || !ev.Task.Truncated.Has(engine.FieldCwd) || !strings.HasSuffix(c.Dir, "/"+got) {
			t.Errorf("%q", got)
		}
	})
}

// TestAlive reads while the process lives, so that nothing is cut.
func TestAlive(t *testing.T) {
	s := open(t, Options{})
	dir := t.TempDir()
	for range 40 {
		dir = filepath.Join(dir, "deep")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := child("wait", strings.Repeat("a", 20000))
	c.Dir = dir
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	drain(t, s)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var evs []*engine.RawEvent
	for range 1000 {
		if evs = append(evs, drain(t, s)...); len(of(evs, c.Process.Pid, engine.KindExec)) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	in.Close()
	c.Wait()
	ev := one(t, evs, c.Process.Pid, engine.KindExec)
	wantText(t, ev, engine.FieldCwd, dir)
	wantText(t, ev, engine.FieldCmdline, strings.Join(c.Args, "\x00")+"\x00")
}

func TestMounts(t *testing.T) {
	s := open(t, Options{})
	c := child("mounted")
	c.Dir = t.TempDir()
	out, evs := run(t, s, c)
	execs := of(evs, c.Process.Pid, engine.KindExec)
	truth := parseTruth(t, out)
	if len(execs) != 2 || !strings.HasSuffix(truth["cwd"], "/dst/inner/x/y") {
		t.Fatalf("%d execs in %s", len(execs), truth["cwd"])
	}
	wantTruth(t, execs[1], truth)
}

func TestChroot(t *testing.T) {
	s := open(t, Options{})
	c := child("chrooted")
	c.Dir = t.TempDir()
	_, evs := run(t, s, c)
	ev := of(evs, c.Process.Pid, engine.KindExec)[1]
	wantText(t, ev, engine.FieldCwd, "/sub")
	wantText(t, ev, engine.FieldFilename, "/self")
}

func TestMemfd(t *testing.T) {
	s := open(t, Options{})
	c := child("memfd")
	_, evs := run(t, s, c)
	wantText(t, of(evs, c.Process.Pid, engine.KindExec)[1], engine.FieldFilename, "memfd:in memory")
}

func TestArguments(t *testing.T) {
	const most = chunks * chunkSize
	s := open(t, Options{})
	for _, size := range []int{1, 400, 500, 1500, 4000, 20000} {
		c := child("exit", strings.Repeat("a", size), "\xff\xfe\n\"")
		_, evs := run(t, s, c)
		ev := one(t, evs, c.Process.Pid, engine.KindExec)
		want := strings.Join(c.Args, "\x00") + "\x00"
		if len(want) <= most {
			wantText(t, ev, engine.FieldCmdline, want)
		} else if got := string(ev.Bytes(engine.FieldCmdline)); got != want[:most] || !ev.Task.Truncated.Has(engine.FieldCmdline) {
			t.Errorf("%d bytes, truncated %v", len(got), ev.Task.Truncated)
		}
	}
	c := child("exit", make([]string, 2000)...)
	_, evs := run(t, s, c)
	wantText(t, one(t, evs, c.Process.Pid, engine.KindExec), engine.FieldCmdline, strings.Join(c.Args, "\x00")+"\x00")
}

// TestNotResident reads arguments where there is no memory, after others were
// read: nothing of those may be reported.
func TestNotResident(t *testing.T) {
	argvShift = -1 << 30 // between the stack and all else
	defer func() { argvShift = 0 }()
	s := open(t, Options{})
	for range 5 {
		argvShift = 0
		before := open(t, Options{}) // fills the kernel's buffers
		run(t, before, child("exit", strings.Repeat("other", 1000)))
		before.Close()
		c := child("exit", "own")
		_, evs := run(t, s, c)
		if ev := one(t, evs, c.Process.Pid, engine.KindExec); ev.Bytes(engine.FieldCmdline) != nil {
			t.Errorf("arguments of a page that is not there: %q", ev.Bytes(engine.FieldCmdline))
		}
	}
}

// TestKernelTypes opens with types from outside.
func TestKernelTypes(t *testing.T) {
	types, err := btf.LoadSpec(btfhub.KernelBTF)
	if err != nil {
		t.Skip(err)
	}
	s := open(t, Options{KernelTypes: types})
	c := child("truth")
	out, evs := run(t, s, c)
	wantTruth(t, one(t, evs, c.Process.Pid, engine.KindExec), parseTruth(t, out))
}

// TestEmbeddedTypes opens with those that quark carries for kernels without.
func TestEmbeddedTypes(t *testing.T) {
	k, err := btfhub.Open(btfhub.Options{EmbeddedOnly: true})
	if err != nil {
		t.Skip(err)
	}
	s := open(t, Options{KernelTypes: k.Spec})
	c := child("truth")
	out, evs := run(t, s, c)
	wantTruth(t, one(t, evs, c.Process.Pid, engine.KindExec), parseTruth(t, out))
	if err := s.selfTest(); err != nil {
		t.Error(err)
	}
}

func TestCapabilities(t *testing.T) {
	s := open(t, Options{})
	for k, c := range s.Capabilities().Kinds {
		t.Log(engine.Kind(k), c)
	}
	for f, c := range s.Capabilities().Fields {
		t.Log(engine.Field(f), c)
		if c.Via == "" {
			t.Errorf("%v: no reason", engine.Field(f))
		}
	}
	t.Log(strings.Join(s.Capabilities().Notes, "; "))
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		s := open(b, Options{})
		s.Close()
	}
}

// BenchmarkStats is what a monitor does each second.
func BenchmarkStats(b *testing.B) {
	s := open(b, Options{})
	for b.Loop() {
		if _, err := s.Stats(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPopulate looks for events where there are none.
func BenchmarkPopulate(b *testing.B) {
	s := open(b, Options{})
	var l list
	for b.Loop() {
		if err := s.populate(&l); err != nil {
			b.Fatal(err)
		}
	}
}
