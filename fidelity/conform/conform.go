// Package conform scores a bare [engine.Source], without the engine: every field that its
// capability table claims must be right in every scenario.
//
// It combines the workloads of fidelity/scenario, the ground truth of fidelity/truth and the rules
// of fidelity/score. [Test] runs all scenarios; [Score] runs some with a source that the test has
// opened with special options. [Main], [Child], [Run] and [Drain] serve tests of a single source:
// its loss, life cycle and privileges. Only tests import this package.
package conform

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/thorough"
)

// patience limits the duration of a scenario, and of the delivery of its last events. It suffices
// for emulated machines.
const patience = 3 * time.Minute

// Open opens a source and closes it at the end of the test, or skips the test.
type Open func(testing.TB, source.Options) engine.Source

// Test scores sources twice in every scenario. The first source is read at once, so that /proc can
// complete the kernel's reports. The second is read after all processes have ended, when only the
// kernel's reports remain.
func Test(t *testing.T, open Open) {
	describe(t, open(t, source.Options{}))
	if testing.Short() {
		t.Skip("every scenario twice takes a minute on an emulated processor; quark-test scores them in guests")
	}
	t.Run("at-once", func(t *testing.T) {
		thorough.Skip(t, "quark-test scores every scenario at once, through the engine")
		all(t, open, true)
	})
	t.Run("late", func(t *testing.T) { all(t, open, false) })
	t.Run("threads", func(t *testing.T) { Threads(t, open(t, source.Options{Threads: true})) })
	t.Run("kernel-types", func(t *testing.T) {
		types, err := btf.LoadSpec(btfhub.KernelBTF)
		if err != nil {
			t.Skip(err)
		}
		Score(t, open(t, source.Options{KernelTypes: types}), "fork-exec-exit")
	})
}

// all scores one source in every scenario. An early scenario gets a source of its own. Early
// scenarios come last, as the shared source is not read meanwhile. A storm is always read at once,
// as otherwise it overflows the rings.
func all(t *testing.T, open Open, atOnce bool) {
	w := record(open(t, source.Options{}), false)
	for _, early := range []bool{false, true} {
		for _, s := range scenario.All() {
			if s.Early != early {
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				scoreOne(t, func() (*recorder.Recorder, *scenario.Running) {
					run := start(t, s)
					if early {
						w = record(open(t, source.Options{}), false)
					}
					run.Unread = !atOnce && s.Name != scenario.StormName
					return w, run
				})
			})
		}
	}
}

// Threads scores an open source that reports single threads, in scenarios with threads.
func Threads(t *testing.T, s engine.Source) {
	t.Helper()
	perform(t, record(s, true), "thread-ends", "end-together", "leader-first", "exit-group-thread", "exec-from-thread")
	t.Run("io_uring", func(t *testing.T) { kernelThreads(t, s) })
}

// kernelThreads tests the thread that Linux 5.12 and later create in a process for io_uring.
func kernelThreads(t *testing.T, s engine.Source) {
	for _, note := range s.Capabilities().Notes {
		if strings.Contains(note, "io_uring") {
			t.Skip(note)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	params := make([]uint32, 30)
	params[2] = 2 // IORING_SETUP_SQPOLL
	script := new(barefork.Script).Call("io_uring_setup", unix.SYS_IO_URING_SETUP, 4, params).Notify(int(w.Fd())).Stop()
	p, err := barefork.Start(script, barefork.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Read(make([]byte, 1))
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	result, _ := p.Result(0, 0)
	p.Kill()
	if result < 0 || len(list) < 2 {
		t.Skipf("io_uring_setup returned %d; threads %v, error %v", result, list, err)
	}
	var evs Events
	for end := time.Now().Add(patience); len(evs.Of(p.PID, engine.KindExit)) < len(list) && time.Now().Before(end); {
		evs = append(evs, Drain(t, s)...)
	}
	for _, task := range list[1:] {
		for _, k := range []engine.Kind{engine.KindFork, engine.KindExit} {
			of := slices.DeleteFunc(evs.Of(p.PID, k), func(ev *engine.RawEvent) bool { return fmt.Sprint(ev.TID) != task.Name() || !ev.Thread })
			if len(of) != 1 || k == engine.KindFork && of[0].Creator != uint32(p.PID) {
				t.Errorf("got %d %v of kernel thread %s by this process, want 1: %s", len(of), k, task.Name(), evs.Kinds(p.PID))
			}
		}
	}
}

// Score scores an open source in scenarios that it reads at once.
func Score(t *testing.T, s engine.Source, names ...string) {
	t.Helper()
	perform(t, record(s, false), names...)
}

func perform(t *testing.T, w *recorder.Recorder, names ...string) {
	t.Helper()
	for _, name := range names {
		s, ok := scenario.Find(name)
		if !ok {
			t.Fatalf("unknown scenario %q", name)
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

// describe logs the capability table of a source. Each row must name its origin or the reason for
// its absence. Exceptions are gaps, which have no hook, and fields that the engine derives.
func describe(t *testing.T, s engine.Source) {
	table := s.Capabilities()
	for k, c := range table.Kinds {
		t.Log(engine.Kind(k), c)
		if c.Via == "" && engine.Kind(k) != engine.KindGap {
			t.Errorf("%v: the capability table has no hook and no reason", engine.Kind(k))
		}
	}
	for f, c := range table.Fields {
		t.Log(engine.Field(f), c)
		if c.Via == "" && engine.AllFields.Has(engine.Field(f)) {
			t.Errorf("%v: the capability table has no origin and no reason", engine.Field(f))
		}
	}
	t.Log(table.Notes)
}

// record returns a recorder of a bare source. With threads the source reports single threads.
func record(s engine.Source, threads bool) *recorder.Recorder {
	return recorder.New(recorder.NewListener(&bare{Source: s}, 0, false), nil, threads)
}

// bare presents a source as a queue. An event has only the fields of its raw event, none that an
// engine would copy from earlier events.
type bare struct {
	engine.Source
	events Events
}

func (b *bare) Backend() string { return b.Name() }

// Capabilities returns the table without REPARENT, which the engine makes from an EXIT.
func (b *bare) Capabilities() *engine.CapabilityTable {
	table := *b.Source.Capabilities()
	table.Kinds[engine.KindReparent] = engine.Capability{}
	return &table
}

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
		Events: ev.Kind.Events(), IDChange: ev.IDChange, NSChange: ev.NSChange, Time: ev.Time, Tracer: ev.Tracer, Thread: ev.Thread, TID: ev.TID,
		CgroupChangeBy: engine.Identity{PID: ev.Creator},
		Process: &engine.Process{
			PID: ev.PID, Task: ev.Task,
			Comm:   string(ev.Bytes(engine.FieldComm)),
			Cwd:    string(ev.Bytes(engine.FieldCwd)),
			Cgroup: string(ev.Bytes(engine.FieldCgroup)),
			Image: engine.Image{
				Exe: string(ev.Bytes(engine.FieldExe)), ExecPath: string(ev.Bytes(engine.FieldExecPath)),
				Args: ev.Bytes(engine.FieldArgs), Environ: ev.Bytes(engine.FieldEnviron),
			},
			Usage:  ev.Usage,
			Exited: ev.Kind == engine.KindExit && !ev.Thread,
		},
	}, nil
}

// Block waits only briefly, as Wake has no effect.
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

// scoreOne scores the reports of a source in one scenario. It repeats the scenario if no report is
// wrong but events are lost, or are missing and the kernel may lose events without counting them.
func scoreOne(t *testing.T, begin func() (*recorder.Recorder, *scenario.Running)) {
	t.Helper()
	const times = 3
	for n := 1; !scoreOnce(t, n < times, begin); n++ {
		t.Log("again: nothing is wrong, but events were lost")
	}
}

// scoreOnce returns false if the scenario must be repeated.
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
	// The proc connector can report a thread's end after events of processes that started
	// later.
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
	found := *sc // apart from missing events
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
