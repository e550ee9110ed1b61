package kprobe

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/backends/internal/tracefs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/sourcetest"
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

// Drain returns all that is queued.
func (s *Source) Drain(t testing.TB) sourcetest.Events {
	t.Helper()
	var l list
	if err := s.Populate(&l); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(l, func(a, b *engine.RawEvent) int { return cmp.Compare(a.Time, b.Time) })
	return sourcetest.Events(l)
}

// list is a sink without bound.
type list []*engine.RawEvent

func (l *list) Room() int                  { return 1000 }
func (l *list) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (l *list) Release(*engine.RawEvent)   {}
func (l *list) Insert(ev *engine.RawEvent) { *l = append(*l, ev) }

func TestConformance(t *testing.T) {
	sourcetest.Conformance{
		Open: func(t testing.TB, o sourcetest.Options) sourcetest.Source {
			return openShared(t, source.Options{Threads: o.Threads, KernelTypes: o.KernelTypes}, Options{})
		},
		WholePaths:    []int{0, 1, 2},
		CutPath:       90,
		CutPathNames:  4,
		LongNamesPath: 1000,
		Arguments:     chunks * chunkSize,
	}.Test(t)
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
		sourcetest.Run(t, before, sourcetest.Child("exit", strings.Repeat("other", 1000)))
		before.Close()
		c := sourcetest.Child("exit", "own")
		_, evs := sourcetest.Run(t, s, c)
		if ev := evs.One(t, c.Process.Pid, engine.KindExec); ev.Bytes(engine.FieldCmdline) != nil {
			t.Errorf("arguments of a page that is not there: %q", ev.Bytes(engine.FieldCmdline))
		}
	}
}

// TestEmbeddedTypes opens with those that quark carries for kernels without.
func TestEmbeddedTypes(t *testing.T) {
	k, err := btfhub.Open(btfhub.Options{EmbeddedOnly: true})
	if err != nil {
		t.Skip(err)
	}
	s := openShared(t, source.Options{KernelTypes: k.Spec}, Options{})
	c := sourcetest.Child("truth")
	out, evs := sourcetest.Run(t, s, c)
	sourcetest.WantTruth(t, evs.One(t, c.Process.Pid, engine.KindExec), sourcetest.ParseTruth(t, out))
	if err := s.selfTest(); err != nil {
		t.Error(err)
	}
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
		if err := s.Populate(&l); err != nil {
			b.Fatal(err)
		}
	}
}
