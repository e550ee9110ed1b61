package ebpf

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/sourcetest"
	"golang.org/x/sys/unix"
)

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

// Drain returns all that is queued. It fails the test where Populate would count
// a record that can't be decoded.
func (s *Source) Drain(t testing.TB) (evs sourcetest.Events) {
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

func TestConformance(t *testing.T) {
	sourcetest.Conformance{
		Open: func(t testing.TB, o sourcetest.Options) sourcetest.Source {
			s := open(t, Options{Threads: o.Threads, KernelTypes: o.KernelTypes})
			t.Cleanup(func() {
				if o.Threads && s.ring != nil {
					_, passed, rescued := s.counters.sum()
					t.Logf("passed to a twin %d, rescued by one %d", passed, rescued)
				}
			})
			return s
		},
		WholePaths:       []int{0, 1, 90, 100},
		CutPath:          200,
		CutPathNames:     100,
		LongNamesPath:    3700,
		Arguments:        20480,
		ThreadsMayBeLost: true, // on a preemptible kernel under load
	}.Test(t)
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
		s.Drain(b)
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
