package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tinyelf"
	"golang.org/x/sys/unix"
)

// open opens a source on the running kernel, or skips.
func open(t testing.TB, o Options) *Source {
	t.Helper()
	return openShared(t, source.Options{}, o)
}

func openShared(t testing.TB, shared source.Options, o Options) *Source {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("needs root to load eBPF programs")
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

// shortLives returns a function that runs processes which end at once.
func shortLives(t testing.TB) (run func(n int)) {
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

// Of the kinds that are left out no program is attached.
func TestKinds(t *testing.T) {
	conform.Kinds(t, func(t testing.TB, shared source.Options) engine.Source { return openShared(t, shared, Options{}) },
		func(t testing.TB, src engine.Source, o source.Options) {
			s, want := src.(*Source), 0
			for _, h := range required {
				if o.Reports(h.kind.Events()) {
					want += 2
				}
			}
			if o.Kinds != 0 && !o.Reports(engine.EventExec) && o.Reports(engine.EventExit) {
				want++ // the one for leaders
			}
			if got := len(s.links) + len(s.events); o.Kinds != 0 && got != want {
				t.Errorf("%d programs are attached, not %d", got, want)
			}
		})
	if _, err := Open(source.Options{Kinds: engine.EventPtrace}, Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("only what no program reports: %v", err)
	}
}

// The twin program of exits can be attached to a perf event. The tracepoint runs the twin of
// the second source before its first program, as the first source's is attached already.
func TestExitsByPerfEvent(t *testing.T) {
	defer func(old string) { preemptibleSince = old }(preemptibleSince)
	preemptibleSince = "0.0"
	if eventOfExits() == 0 {
		t.Skip("no tracefs, or no perf event of exits")
	}
	sources := []*Source{open(t, Options{}), open(t, Options{})}
	for i, s := range sources {
		if via := s.Capabilities().Kinds[engine.KindExit].Via; !strings.Contains(via, "tracepoint/sched/") {
			t.Fatalf("source %d has its exits from %s", i, via)
		}
		conform.Drain(t, s)
	}
	const n = 30
	var pids []int
	for range n {
		c := conform.Child("exit")
		c.Run()
		pids = append(pids, c.Process.Pid)
	}
	for i, s := range sources {
		evs := conform.Drain(t, s)
		for _, pid := range pids {
			if ends := evs.Of(pid, engine.KindExit); len(ends) != 1 {
				t.Errorf("source %d: pid %d has %d EXITs", i, pid, len(ends))
			}
		}
		_, passed, rescued := s.counters.sum()
		if i == 1 && (passed < n || rescued < n) {
			t.Errorf("source 1: the second program took %d ends of %d processes, the first left it %d", rescued, n, passed)
		}
		if st, err := s.Stats(); err != nil || st.LostTotal() != 0 {
			t.Errorf("source %d: lost %v, %v", i, st.Lost, err)
		}
	}
}

// Without kprobes the notes say which changes of ids are not seen.
func TestNoteOfCompatSyscalls(t *testing.T) {
	table := open(t, Options{}).Capabilities()
	bound := slices.ContainsFunc(table.Notes, func(n string) bool { return strings.Contains(n, "32-bit syscalls are not seen") })
	if via := table.Kinds[engine.KindIDChange].Via; strings.Contains(via, "sys_exit") != bound {
		t.Errorf("ID_CHANGE comes from %s, the notes are %q", via, table.Notes)
	}
}

// Close mostly waits for the kernel, so it is measured separately.
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
		conform.Drain(b, s)
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
