package conform

import (
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Open opens a source that the test's end closes, or skips the test.
type Open func(testing.TB, source.Options) engine.Source

// Test judges sources in every scenario, twice: read at once, when /proc can add to what
// the kernel reports, and read late, when all processes have ended and only the kernel's
// reports are left.
func Test(t *testing.T, open Open) {
	describe(t, open(t, source.Options{}))
	if testing.Short() {
		t.Skip("every scenario twice takes a minute on an emulated processor; quark-test judges them in guests")
	}
	t.Run("at-once", func(t *testing.T) { all(t, open, true) })
	t.Run("late", func(t *testing.T) { all(t, open, false) })
	t.Run("threads", func(t *testing.T) {
		w := newWatch(open(t, source.Options{Threads: true}), true)
		w.performAll(t, "thread-ends", "end-together", "leader-first", "exit-group-thread", "exec-from-thread")
	})
	t.Run("kernel-types", func(t *testing.T) {
		types, err := btf.LoadSpec(btfhub.KernelBTF)
		if err != nil {
			t.Skip(err)
		}
		Judge(t, open(t, source.Options{KernelTypes: types}), "fork-exec-exit")
	})
}

// all judges one source in every scenario, except that a source of its own watches each
// that begins before the source is opened. These are the last, as nobody reads the other
// source then. A storm is always read at once: the rings do not hold all of it.
func all(t *testing.T, open Open, atOnce bool) {
	w := newWatch(open(t, source.Options{}), false)
	for _, early := range []bool{false, true} {
		for _, s := range scenario.All() {
			if s.Early != early {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				run, err := scenario.Start(s)
				if err != nil {
					t.Fatal(err)
				}
				if early {
					w = newWatch(open(t, source.Options{}), false)
				}
				w.perform(t, run, atOnce || s.Name == scenario.StormName)
			})
		}
	}
}

// Judge judges an open source in scenarios that it reads at once.
func Judge(t *testing.T, s engine.Source, names ...string) {
	t.Helper()
	newWatch(s, false).performAll(t, names...)
}

func (w *watch) performAll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s, ok := scenario.Find(name)
		if !ok {
			t.Fatalf("no scenario %q", name)
		}
		t.Run(name, func(t *testing.T) {
			run, err := scenario.Start(s)
			if err != nil {
				t.Fatal(err)
			}
			w.perform(t, run, true)
		})
	}
}

// describe logs what a source claims. Each row has to say where it comes from, or why
// there is none, except gaps, which come from no hook.
func describe(t *testing.T, s engine.Source) {
	table := s.Capabilities()
	for k, c := range table.Kinds {
		t.Log(engine.Kind(k), c)
		if c.Via == "" && engine.Kind(k) != engine.KindGap {
			t.Errorf("%v: the capability table gives no hook and no reason", engine.Kind(k))
		}
	}
	for f, c := range table.Fields {
		t.Log(engine.Field(f), c)
		if c.Via == "" {
			t.Errorf("%v: the capability table gives no place and no reason", engine.Field(f))
		}
	}
	t.Log(table.Notes)
}

// perform judges the source in one scenario.
func (w *watch) perform(t *testing.T, run *scenario.Running, atOnce bool) {
	t.Helper()
	w.seen = nil
	before := w.lost(t)
	o, err := w.await(run, atOnce)
	if err != nil {
		t.Fatal(err)
	}
	if o.Skip != "" {
		t.Skip(o.Skip)
	}
	sc, err := w.judgeAll(o)
	if err != nil {
		t.Fatal(err)
	}
	lost := w.lost(t) - before
	all := sc.All()
	t.Logf("%d of %d events reported, fields %+v", sc.Seen, sc.Truth, all)
	switch {
	case sc.Perfect() && lost == 0:
		return
	case o.Name == scenario.StormName && sc.PerfectBut(lost):
		t.Logf("%d events lost", lost)
		return
	}
	t.Errorf("%d of %d events reported, %d lost, %d phantoms, %d duplicates, %d out of order, fields %+v, stamps %+v",
		sc.Seen, sc.Truth, lost, sc.Phantoms, sc.Duplicates, sc.Inversions, all, sc.Stamp)
	for _, f := range sc.Findings {
		t.Log(f)
	}
}

// lost is the number of events that the source has counted as lost.
func (w *watch) lost(t *testing.T) uint64 {
	t.Helper()
	st, err := w.s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return st.LostTotal()
}
