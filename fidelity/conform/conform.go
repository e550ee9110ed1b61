// Package conform scores a bare [engine.Source], without the engine: every field
// that its capability table claims has to be right in every scenario.
//
// The lives are those of fidelity/scenario, the truth is that of fidelity/truth and
// the rules are those of fidelity/score. [Test] runs all scenarios; [Score] runs some
// with a source that a test has opened in a special way. [Main], [Child], [Run] and
// [Drain] are for tests of what only one source has: its loss, its lifecycle, its
// privileges. Only tests import this package.
package conform

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/btfhub"
)

// patience bounds a scenario, and the delivery of its last events. It is meant for
// emulated machines.
const patience = 3 * time.Minute

// Open opens a source that the test's end closes, or skips the test.
type Open func(testing.TB, source.Options) engine.Source

// Test scores sources in every scenario, twice: read at once, when /proc can add to what
// the kernel reports, and read late, when all processes have ended and only the kernel's
// reports are left.
func Test(t *testing.T, open Open) { TestExcept(t, open, nil) }

// TestExcept is Test without the scenarios that say nothing of the source, for a reason each.
func TestExcept(t *testing.T, open Open, unsuited map[string]string) {
	describe(t, open(t, source.Options{}))
	if testing.Short() {
		t.Skip("every scenario twice takes a minute on an emulated processor; quark-test scores them in guests")
	}
	t.Run("at-once", func(t *testing.T) { all(t, open, unsuited, true) })
	t.Run("late", func(t *testing.T) { all(t, open, unsuited, false) })
	t.Run("threads", func(t *testing.T) { Threads(t, open(t, source.Options{Threads: true})) })
	t.Run("kernel-types", func(t *testing.T) {
		types, err := btf.LoadSpec(btfhub.KernelBTF)
		if err != nil {
			t.Skip(err)
		}
		Score(t, open(t, source.Options{KernelTypes: types}), "fork-exec-exit")
	})
}

// all scores one source in every scenario, except that a source of its own watches each
// that begins before the source is opened. These are the last, as nobody reads the other
// source then. A storm is always read at once: the rings do not hold all of it.
func all(t *testing.T, open Open, unsuited map[string]string, atOnce bool) {
	w := watch(open(t, source.Options{}), false)
	for _, early := range []bool{false, true} {
		for _, s := range scenario.All() {
			if s.Early != early {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				if why := unsuited[s.Name]; why != "" {
					t.Skip(why)
				}
				scoreOne(t, func() (*recorder.Recorder, *scenario.Running) {
					run := start(t, s)
					if early {
						w = watch(open(t, source.Options{}), false)
					}
					run.Unread = !atOnce && s.Name != scenario.StormName
					return w, run
				})
			})
		}
	}
}

// Threads scores an open source that reports single threads in scenarios with threads.
func Threads(t *testing.T, s engine.Source) {
	t.Helper()
	perform(t, watch(s, true), "thread-ends", "end-together", "leader-first", "exit-group-thread", "exec-from-thread")
}

// Score scores an open source in scenarios that it reads at once.
func Score(t *testing.T, s engine.Source, names ...string) {
	t.Helper()
	perform(t, watch(s, false), names...)
}

func perform(t *testing.T, w *recorder.Recorder, names ...string) {
	t.Helper()
	for _, name := range names {
		s, ok := scenario.Find(name)
		if !ok {
			t.Fatalf("no scenario %q", name)
		}
		t.Run(name, func(t *testing.T) {
			scoreOne(t, func() (*recorder.Recorder, *scenario.Running) { return w, start(t, s) })
		})
	}
}

func start(t *testing.T, s scenario.Scenario) *scenario.Running {
	t.Helper()
	run, err := scenario.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// describe logs what a source claims. Each row has to say where it comes from, or why
// there is none, except gaps, which come from no hook, and what the engine derives.
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
		if c.Via == "" && engine.AllFields.Has(engine.Field(f)) {
			t.Errorf("%v: the capability table gives no place and no reason", engine.Field(f))
		}
	}
	t.Log(table.Notes)
}

// watch returns a witness of a bare source; with threads the source reports single threads.
func watch(s engine.Source, threads bool) *recorder.Recorder {
	return recorder.New(recorder.NewListener(&bare{Source: s}, 0, false), nil, threads)
}

// bare presents a source as a queue that delivers each raw event as the engine would deliver
// it alone. What the engine adds from earlier events is unknown in it.
type bare struct {
	engine.Source
	events Events
}

func (b *bare) Backend() string { return b.Name() }

func (b *bare) Get() (_ *engine.Event, err error) {
	if len(b.events) == 0 {
		if b.events, err = drain(b.Source); err != nil {
			return nil, err
		}
		b.events = slices.DeleteFunc(b.events, func(ev *engine.RawEvent) bool { return ev.Kind == engine.KindGap })
	}
	if len(b.events) == 0 {
		return nil, engine.ErrNothing
	}
	ev := b.events[0]
	b.events = b.events[1:]
	return &engine.Event{
		Events: ev.Kind.Events(), IDChange: ev.IDChange, Time: ev.Time, Tracer: ev.Tracer, Thread: ev.Thread, TID: ev.TID,
		Process: &engine.Process{
			PID: ev.PID, Task: ev.Task,
			Comm:     string(ev.Bytes(engine.FieldComm)),
			Filename: string(ev.Bytes(engine.FieldFilename)),
			Cwd:      string(ev.Bytes(engine.FieldCwd)),
			ExecPath: string(ev.Bytes(engine.FieldExecPath)),
			Cgroup:   string(ev.Bytes(engine.FieldCgroup)),
			Cmdline:  ev.Bytes(engine.FieldCmdline),
			Usage:    &ev.Usage,
			Environ:  ev.Bytes(engine.FieldEnviron),
			Exited:   ev.Kind == engine.KindExit && !ev.Thread,
		},
	}, nil
}

// Block waits for a short time only, as Wake wakes nobody.
func (b *bare) Block(time.Duration) error {
	if b.Arm(true) {
		Poll(b.Source, 5*time.Millisecond)
	}
	return nil
}

func (b *bare) Wake()                                          {}
func (b *bare) Lookup(uint32) *engine.Process                  { return nil }
func (b *bare) LookupIdentity(engine.Identity) *engine.Process { return nil }

func (b *bare) Stats() (s engine.Stats, err error) {
	s.Source, err = b.Source.Stats()
	return s, err
}

// scoreOne scores what a source reports of one scenario. It is performed again if nothing is wrong
// but that events were lost, or are missing where the source reports that the kernel may lose some
// that it does not count.
func scoreOne(t *testing.T, begin func() (*recorder.Recorder, *scenario.Running)) {
	t.Helper()
	const times = 3
	for n := 1; !scoreOnce(t, n < times, begin); n++ {
		t.Log("again: nothing is wrong, but events were lost")
	}
}

// scoreOnce returns false if a scenario has to be performed again.
func scoreOnce(t *testing.T, again bool, begin func() (*recorder.Recorder, *scenario.Running)) bool {
	t.Helper()
	w, run := begin()
	w.Forget()
	before, all := stats(t, w), []*recorder.Recorder{w}
	recorder.StartAll(all)
	outcomes, err := recorder.RunScenarios(run, all, patience)
	if err := errors.Join(err, recorder.PauseAll(all)); err != nil {
		t.Fatal(err)
	}
	o := outcomes[0]
	if o.Skip != "" {
		t.Skip(o.Skip)
	}
	// The proc connector's message of the end of a thread can come after those of processes
	// that were started later.
	var sc *score.Score
	late := time.Duration(w.Single.Queue.Capabilities().Stamps.Ends)
	for end := time.Now().Add(late); sc == nil || sc.Seen+sc.Lost < sc.Truth && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		recorder.StartAll(all)
		_, err := recorder.WaitDelivered(recorder.Listeners(all), outcomes, patience)
		if err := errors.Join(err, recorder.PauseAll(all)); err != nil {
			t.Fatal(err)
		}
		sc = score.Compute(w.Delivered(), o.Processes)
	}
	after := stats(t, w)
	lost := after.Lost() - before.Lost()
	found := *sc // but for what is missing
	found.Truth = found.Seen
	t.Logf("%d of %d events reported, fields %+v", sc.Seen, sc.Truth, sc.All())
	switch {
	case sc.Perfect() && lost == 0:
		return true
	case o.Name == scenario.StormName && sc.PerfectBut(lost):
		t.Logf("%d events lost", lost)
		return true
	case again && found.Perfect() && (lost > 0 || before.Source.Bound && sc.Seen < sc.Truth):
		return false // the machine is busy, or the kernel does not count its losses
	}
	t.Errorf("%s, %d lost", sc, lost)
	for _, f := range sc.Findings {
		t.Log(f)
	}
	return true
}

func stats(t *testing.T, w *recorder.Recorder) engine.Stats {
	t.Helper()
	st, err := w.Single.Queue.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return st
}
