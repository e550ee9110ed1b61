package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tinyelf"
	"golang.org/x/sys/unix"
)

// forcedBuffer is the kind of buffer that open requests.
var forcedBuffer source.Buffer

// open opens a source on the running kernel, or skips the test.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	return openShared(t, source.Options{}, o)
}

func openShared(t testing.TB, shared source.Options, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
	}
	if forcedBuffer != source.BufferAuto {
		o.Buffer = forcedBuffer
	}
	s, err := Open(shared, o)
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

// processRunner returns a function that runs n processes that exit at once.
func processRunner(t testing.TB) (run func(n int)) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "short")
	if err := tinyelf.Write(program, 0); err != nil {
		t.Fatal(err)
	}
	return func(n int) {
		t.Helper()
		for range n {
			if err := exec.Command(program).Run(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestConform(t *testing.T) {
	conform.Test(t, func(t testing.TB, shared source.Options) engine.Source { return openShared(t, shared, Options{}) })
}

// If the FORK of a process is reported while the programs are being attached, its EXEC and EXIT are
// reported too.
func TestOpenAmid(t *testing.T) {
	run, hooks := processRunner(t), 0
	onAttach = func(string) { hooks++; run(1) }
	t.Cleanup(func() { onAttach = func(string) {} })
	s := open(t, Options{})
	run(1)
	evs, births := conform.Drain(t, s), 0
	for _, ev := range evs {
		if ev.Kind != engine.KindFork || ev.Creator != uint32(os.Getpid()) {
			continue
		}
		births++
		evs.One(t, int(ev.PID), engine.KindExec)
		evs.One(t, int(ev.PID), engine.KindExit)
	}
	if hooks < len(requiredHooks)*perHook() || births == 0 || births > 3 {
		t.Errorf("got %d forks reported while %d programs were attached", births, hooks)
	}
}

// perHook returns the number of programs for each hook.
func perHook() int {
	if preemptible() {
		return 2
	}
	return 1
}

// No program is attached for unwanted kinds. If the kernel cannot preempt programs, no second
// program is attached.
func TestKinds(t *testing.T) {
	conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return openShared(t, shared, Options{}) },
		func(t testing.TB, src engine.Source, o source.Options) {
			s, want := src.(*Source), 0
			for _, h := range requiredHooks {
				if o.Reports(h.kind.Events()) {
					want += perHook()
				}
			}
			if o.Kinds != 0 && !o.Reports(engine.EventExec) && o.Reports(engine.EventExit) {
				want++ // the hook for exits of leaders
			}
			if got := len(s.links) + len(s.events); o.Kinds != 0 && got != want {
				t.Errorf("got %d attached programs, want %d", got, want)
			}
		})
	for kinds, want := range map[engine.Events][]int{engine.EventPtrace: {1, 2}, engine.EventCoreDump: {perHook() + 1}} {
		s := openShared(t, source.Options{Kinds: kinds}, Options{})
		if got := len(s.links) + len(s.events); !slices.Contains(want, got) {
			t.Errorf("kinds %s: got %d attached programs, want %d", kinds, got, want)
		}
	}
}

// useSecondPrograms makes sources attach the second programs too, as on kernels with preemptible
// raw tracepoints.
func unpreempted(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/realtime"); err == nil {
		t.Skip("before 6.12 PREEMPT_RT has no ring for programs that run with interrupts disabled")
	}
	old := preemptibleSince
	preemptibleSince = "0.0"
	t.Cleanup(func() { preemptibleSince = old })
}

// Each event is reported once, by whichever of its two programs the kernel runs first. The kernel
// runs the second programs of the second source first, because their perf events were attached
// before.
func TestUnpreemptedPrograms(t *testing.T) {
	unpreempted(t)
	run := processRunner(t)
	run(1) // Go's first exec forks an extra process
	sources := []*Source{open(t, Options{}), open(t, Options{})}
	for i, s := range sources {
		for k, want := range map[engine.Kind]string{
			engine.KindFork: "raw_tp/sched_wakeup_new", engine.KindExec: "tracepoint/sched/", engine.KindExit: "tracepoint/sched/",
		} {
			if via := s.Capabilities().Kinds[k].Via; !strings.Contains(via, want) {
				t.Skipf("source %d reads its %ss from %s: the kernel has no tracefs, or no such event", i, k, via)
			}
		}
		conform.Drain(t, s)
	}
	const n = 30
	run(n)
	for i, s := range sources {
		var got [engine.NumKinds]int
		for _, ev := range conform.Drain(t, s) {
			if string(ev.Bytes(engine.FieldComm)) == "short" || ev.Kind == engine.KindFork && ev.Task.PPID == uint32(os.Getpid()) && !ev.Thread {
				got[ev.Kind]++
			}
		}
		if got[engine.KindFork] != n || got[engine.KindExec] != n || got[engine.KindExit] != n {
			t.Errorf("source %d: got %v events by kind, want %d of each", i, got, n)
		}
		_, passed, rescued := s.counters.sum()
		if i == 1 && (passed < 2*n || rescued < 2*n) {
			t.Errorf("source 1: second programs reported %d events of %d processes, first programs left %d to them", rescued, n, passed)
		}
		if st, err := s.Stats(); err != nil || st.LostTotal() != 0 {
			t.Errorf("source %d: got lost %v, error %v", i, st.Lost, err)
		}
	}
}

// The second programs report correct events without the first programs.
func TestUnpreemptedProgramsAlone(t *testing.T) {
	unpreempted(t)
	s := open(t, Options{})
	closeFirst(t, s)
	conform.Score(t, s, "fork-exec-exit", "vfork", "exec-chain-5", "exec-from-thread", "end-together")
}

// closeFirst detaches the first programs. It deletes the fork marks that they made before the
// second programs were attached. Otherwise a new task at the address of an earlier task would have
// that task's mark.
func closeFirst(t *testing.T, s *Source) {
	t.Helper()
	for _, first := range s.first {
		info, err := first.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		for _, l := range s.links {
			if of, err := l.Info(); err == nil && of.Program == id {
				l.Close()
			}
		}
	}
	var marks []uint64
	var key uint64
	var mark uint8
	taken := s.maps[programsMapTaken]
	for all := taken.Iterate(); all.Next(&key, &mark); {
		marks = append(marks, key)
	}
	for _, key := range marks {
		if err := taken.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
	}
}

// Without kprobes, a note says that the source misses changes of ids by 32-bit syscalls.
func TestNoteOfCompatSyscalls(t *testing.T) {
	table := open(t, Options{}).Capabilities()
	bound := slices.ContainsFunc(table.Notes, func(n string) bool { return strings.Contains(n, "32-bit syscalls are not seen") })
	if c := table.Kinds[engine.KindIDChange]; strings.Contains(c.Via, "sys_exit") != bound || (c.Partial != 0) != bound {
		t.Errorf("got ID_CHANGE capability %+v, notes %q", c, table.Notes)
	}
}

// PTRACE is reported for each of many tracees of one tracer. The kernel's list has the first tracee
// at its end.
func TestManyTracees(t *testing.T) {
	s := open(t, Options{})
	runtime.LockOSThread() // the kernel attaches tracees to the thread
	defer runtime.UnlockOSThread()
	var pids []int
	for range 40 {
		p, err := barefork.Start(new(barefork.Script).Stop(), barefork.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if err := unix.PtraceSeize(p.PID); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID)
	}
	for _, pid := range pids {
		interrupted := unix.PtraceInterrupt(pid)
		_, err := unix.Wait4(pid, nil, 0, nil)
		if err := errors.Join(interrupted, err, unix.PtraceDetach(pid)); err != nil {
			t.Fatal(err)
		}
	}
	evs := conform.Drain(t, s)
	if st, err := s.Stats(); err != nil || st.LostTotal() > 0 {
		t.Skipf("the source lost %v, maybe events of other programs; error %v", st.Lost, err)
	}
	for _, pid := range pids {
		of := evs.Of(pid, engine.KindPtrace)
		if len(of) != 2 || of[0].Tracer.PID != uint32(os.Getpid()) || of[1].Tracer.PID != 0 {
			t.Fatalf("process %d: got %d events", pid, len(of))
		}
	}
}

// The verifier needs most of the time to open a source. Two of the programs are loaded twice if raw
// tracepoints can miss an exec or exit.
func TestVerifierWork(t *testing.T) {
	s := open(t, Options{})
	if s.snapshot != nil {
		checkVerified(t, 4100, s.snapshot)
	}
	most := uint32(22500)
	if slices.ContainsFunc(s.programs, func(p *ebpf.Program) bool { return strings.Contains(p.String(), "quark_exec_perf") }) {
		most = 26000
	}
	if s.noKprobes == nil { // changes of ids and namespaces, tracers
		most += 9000
	}
	checkVerified(t, most, s.programs...)
}

func checkVerified(t *testing.T, most uint32, programs ...*ebpf.Program) {
	t.Helper()
	sum := uint32(0)
	for _, p := range programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := info.VerifiedInstructions()
		if !ok {
			t.Skip("the kernel does not report the number of verified instructions: needs Linux 5.16")
		}
		sum += n
	}
	if t.Logf("%d instructions", sum); sum > most {
		t.Errorf("the verifier processed %d instructions, want at most %d", sum, most)
	}
}

// BenchmarkOpen measures Open and Close separately, as Close mostly waits for the kernel.
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

// BenchmarkPrograms reports the time of each program per event, and of all programs per process:
// with the ring, with perf buffers, and with reads through calls.
func BenchmarkPrograms(b *testing.B) {
	for name, o := range map[string]Options{"ring": {}, "perf": {Buffer: source.BufferPerf}} {
		b.Run(name, func(b *testing.B) { measurePrograms(b, open(b, o)) })
	}
	b.Run("calls", func(b *testing.B) {
		hideCasts(b)
		measurePrograms(b, open(b, Options{}))
	})
}

func measurePrograms(b *testing.B, s *Source) {
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
		conform.Drain(b, s)
	}
	var all time.Duration
	for _, p := range s.programs {
		st, err := p.Stats()
		if err != nil {
			b.Fatal(err)
		}
		all += st.Runtime
		if st.RunCount > 0 {
			_, name, _ := strings.Cut(p.String(), "(")
			name, _, _ = strings.Cut(name, ")")
			b.ReportMetric(float64(st.Runtime.Nanoseconds())/float64(st.RunCount), name+"-ns/run")
		}
	}
	b.ReportMetric(float64(all.Nanoseconds())/float64(b.N), "ns/life")
}

// No event is lost when tasks preempt each other within the programs. A comm that is set by an exec
// may count as lost, but the EXEC reports it.
func TestPreemptedStorm(t *testing.T) {
	s := open(t, Options{})
	storm := scenario.Storm{Processes: 2000, Workers: 24}
	_, err := os.Stat("/sys/kernel/realtime")
	if testing.Short() && err != nil && !kernelversion.AtLeast(preemptibleSince) {
		storm.Processes = 300 // the kernel does not preempt these programs
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := storm.Run(3*time.Minute, nil)
		done <- err
	}()
	var evs conform.Events
	for over := false; !over; {
		select {
		case err := <-done:
			if over = true; err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Millisecond):
		}
		evs = append(evs, conform.Drain(t, s)...)
	}
	var lives [engine.NumKinds]int
	forked := map[engine.Identity]bool{}
	for _, ev := range evs {
		id := engine.Identity{PID: ev.PID, Start: ev.Task.Start}
		switch {
		case ev.Kind == engine.KindFork:
			forked[id] = true
		case string(ev.Bytes(engine.FieldComm)) == "storm":
			lives[ev.Kind]++
			if ev.Kind == engine.KindExec && forked[id] {
				lives[engine.KindFork]++
			}
		}
	}
	_, passed, rescued := s.counters.sum()
	t.Logf("the first programs missed %d events and passed on %d, the second programs reported %d", countSkips(s.first), passed, rescued)
	for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
		if lives[k] != storm.Processes {
			t.Errorf("got %d %ss, want %d", lives[k], k, storm.Processes)
		}
	}
	if st, err := s.Stats(); err != nil || st.LostTotal() != st.Lost[engine.LossSkipped] {
		t.Errorf("got lost %v, error %v", st.Lost, err)
	}
}
