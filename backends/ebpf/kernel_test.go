package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

// open opens a source on the running kernel, or skips.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
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
func drain(t testing.TB, s *Source) (evs []*engine.RawEvent) {
	t.Helper()
	for deadline := time.Now().Add(time.Second); ; {
		rec := s.ring.next()
		if rec == nil {
			if s.ring.pending() && time.Now().Before(deadline) {
				continue // somebody is still writing the next one
			}
			break
		}
		ev := &engine.RawEvent{}
		if err := decode(ev, rec); err != nil {
			t.Fatalf("decode: %v", err)
		}
		evs = append(evs, ev)
	}
	s.ring.release()
	return evs
}

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
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	_, passed, rescued := s.counters.sum()
	t.Logf("passed to a twin %d, rescued by one %d", passed, rescued)
	// One thread's end is that of the group. On a preemptible kernel under
	// load some may be lost, but not unnoticed.
	if lost := int(st.LostTotal()); born < 5 || ended+groups+lost != born+1 || groups != 1 && lost == 0 {
		t.Errorf("%d threads born, %d ended, %d groups ended, %d lost", born, ended, groups, lost)
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

func TestRename(t *testing.T) {
	s := open(t, Options{})
	c := child("rename")
	_, evs := run(t, s, c)
	wantText(t, one(t, evs, c.Process.Pid, engine.KindComm), engine.FieldComm, "new name")
}

func TestWorkingDirectory(t *testing.T) {
	s := open(t, Options{})
	for _, depth := range []int{0, 1, 90, 100} {
		c := child("deep", strconv.Itoa(depth))
		c.Dir = t.TempDir()
		out, evs := run(t, s, c)
		execs := of(evs, c.Process.Pid, engine.KindExec)
		if len(execs) != 2 {
			t.Fatalf("%d execs", len(execs))
		}
		wantTruth(t, execs[1], parseTruth(t, out))
	}
	t.Run("too deep", func(t *testing.T) {
		c := child("deep", "200")
		c.Dir = t.TempDir()
		_, evs := run(t, s, c)
		ev := of(evs, c.Process.Pid, engine.KindExec)[1]
		if got := string(ev.Bytes(engine.FieldCwd)); !ev.Task.Truncated.Has(engine.FieldCwd) || !strings.HasSuffix(got, "/d198/d199") || got[0] == '/' {
			t.Errorf("%q, truncated %v", got, ev.Task.Truncated)
		}
	})
	t.Run("too long", func(t *testing.T) {
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
		if got := string(ev.Bytes(engine.FieldCwd)); got != c.Dir && !(ev.Task.Truncated.Has(engine.FieldCwd) && strings.HasSuffix(c.Dir, got)) {
			t.Errorf("%q", got)
		}
	})
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
	s := open(t, Options{})
	for _, size := range []int{1, 4000, 20000, 100000} {
		c := child("exit", strings.Repeat("a", size), "\xff\xfe\n\"")
		_, evs := run(t, s, c)
		ev := one(t, evs, c.Process.Pid, engine.KindExec)
		want := strings.Join(c.Args, "\x00") + "\x00"
		if len(want) <= 20480 {
			wantText(t, ev, engine.FieldCmdline, want)
		} else if got := string(ev.Bytes(engine.FieldCmdline)); got != want[:20480] || !ev.Task.Truncated.Has(engine.FieldCmdline) {
			t.Errorf("%d bytes, truncated %v", len(got), ev.Task.Truncated)
		}
	}
	c := child("exit", make([]string, 2000)...)
	_, evs := run(t, s, c)
	wantText(t, one(t, evs, c.Process.Pid, engine.KindExec), engine.FieldCmdline, strings.Join(c.Args, "\x00")+"\x00")
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

// What closing takes is mostly waiting, so it is told apart.
func BenchmarkOpen(b *testing.B) {
	var closing time.Duration
	for b.Loop() {
		s := open(b, Options{})
		start := time.Now()
		s.Close()
		closing += time.Since(start)
	}
	b.ReportMetric(float64(closing.Nanoseconds())/float64(b.N), "closing-ns/op")
}

func BenchmarkPrograms(b *testing.B) {
	s := open(b, Options{})
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Skip(err)
	}
	defer stats.Close()
	path, err := exec.LookPath("true")
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		if err := (&exec.Cmd{Path: path, Args: []string{"true", "one", "two"}}).Run(); err != nil {
			b.Fatal(err)
		}
		drain(b, s)
	}
	for _, p := range s.programs {
		st, err := p.Stats()
		if err != nil {
			b.Fatal(err)
		}
		if st.RunCount > 0 {
			name := strings.TrimPrefix(p.String(), "RawTracepoint(")
			b.ReportMetric(float64(st.Runtime.Nanoseconds())/float64(st.RunCount), name[:strings.IndexByte(name, ')')]+"-ns/run")
		}
	}
}
