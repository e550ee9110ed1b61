package conform

import (
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Test judges sources that open returns in every scenario, twice: read at once, when
// /proc can add to what the kernel reports, and read late, when all processes have
// ended and only the kernel's reports are left. Open skips the test where the source
// cannot be opened, and closes it at the test's end.
func Test(t *testing.T, open func(testing.TB) engine.Source) {
	describe(t, open(t))
	for name, prompt := range map[string]bool{"at-once": true, "late": false} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(open(t))
			for _, s := range scenario.All() {
				switch {
				case s.Early:
					t.Run(s.Name, func(t *testing.T) { early(t, s, open, prompt) })
				default:
					t.Run(s.Name, func(t *testing.T) { w.perform(t, start(t, s), prompt) })
				}
			}
		})
	}
}

// Judge judges an open source in scenarios, read late.
func Judge(t *testing.T, s engine.Source, names ...string) {
	t.Helper()
	w := newWatch(s)
	for _, name := range names {
		sc, ok := scenario.Find(name)
		if !ok {
			t.Fatalf("no scenario %q", name)
		}
		t.Run(name, func(t *testing.T) { w.perform(t, start(t, sc), false) })
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

func start(t *testing.T, s scenario.Scenario) *scenario.Running {
	t.Helper()
	run, err := scenario.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// early opens a source after the scenario has begun. A storm is always read at once:
// the rings do not hold all of it.
func early(t *testing.T, s scenario.Scenario, open func(testing.TB) engine.Source, prompt bool) {
	run := start(t, s)
	newWatch(open(t)).perform(t, run, prompt || s.Name == scenario.StormName)
}

// perform judges the source in one scenario.
func (w *watch) perform(t *testing.T, run *scenario.Running, prompt bool) {
	t.Helper()
	w.seen = nil
	before := w.lost(t)
	o, err := w.await(run, prompt)
	if err != nil {
		t.Fatal(err)
	}
	if o.Skip != "" {
		t.Skip(o.Skip)
	}
	if err := w.settle(); err != nil {
		t.Fatal(err)
	}
	sc := w.judge(o)
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
