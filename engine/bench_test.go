package engine_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/filter"
)

// life returns the fork, exec and exit of one process, with all fields that the eBPF source reports
// by default, and more at the end.
func life() []enginetest.Raw {
	strings := engine.FieldComm.Set() | engine.FieldExe.Set() | engine.FieldArgs.Set() |
		engine.FieldCwd.Set() | engine.FieldCgroup.Set()
	l := []enginetest.Raw{
		{Kind: fork, Creator: 1, Comm: []byte("sh"), Cwd: []byte("/root"), Cgroup: []byte("/")},
		{Kind: exec, Comm: []byte("true"), Exe: []byte("/usr/bin/true"),
			Args: []byte("true\x00this\x00is\x00nop!\x00"), Cwd: []byte("/root"), Cgroup: []byte("/system.slice/cron.service")},
		{Kind: exit, Comm: []byte("true")},
	}
	ofExec := engine.SetOf(engine.FieldExeFile, engine.FieldExecPath)
	ofEnd := engine.FieldsUsage.With(engine.FieldExit)
	for i := range l {
		l[i].Task.Known = engine.AllFields &^ (strings | ofExec | ofEnd | engine.FieldEnviron.Set())
		l[i].Task.StartUnit = 1
	}
	l[1].Task.Known |= ofExec
	l[2].Task.Known |= ofEnd
	return l
}

// steady keeps 10,000 raw events buffered: the clock stands still, so only a full buffer delivers.
// Each step inserts the events of one process and delivers the events of another.
func steady(tb testing.TB, opts engine.Options) (r *rig, step func()) {
	opts.CacheGraceTime = time.Millisecond
	r = newRig(tb, opts)
	pid := uint32(1)
	events := life()
	parent := events[0]
	parent.PID, parent.Creator, parent.Time, parent.Task.Start = 1, 0, r.clock.Now(), r.clock.Now()
	r.src.Push(parent)
	step = func() {
		pid = pid%30000 + 2
		r.clock.Advance(time.Microsecond)
		for i := range events {
			events[i].PID, events[i].Time, events[i].Task.Start = pid, r.clock.Now()+uint64(i), r.clock.Now()
		}
		r.src.Push(events...)
		for {
			if _, err := r.Get(); err != nil {
				return
			}
		}
	}
	for range 40000 {
		step()
	}
	if n := r.Buffered(); n < 9900 {
		tb.Fatalf("got %d buffered events", n)
	}
	return r, step
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	f, err := filter.Parse(`exec and exe ~ "/usr/**" and args == 'nop!' and uid == 0 or tree == 7 or failed and cwd ~ "/root*"`)
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Matcher(new(engine.Clock))
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]engine.Options{"joined": {}, "apart": {Matrix: new(engine.Matrix)}, "filtered": {Judge: m.Judge}} {
		_, step := steady(t, opts)
		if n := testing.AllocsPerRun(20000, step); n != 0 {
			t.Errorf("%s: got %v allocations for three raw events, want none", name, n)
		}
	}
}

// The table needs at most 400 bytes for a process that has executed a program.
func TestTableMemory(t *testing.T) {
	r := newRig(t, engine.Options{})
	heap := func(from, to uint32) uint64 {
		events := life()[:2]
		for pid := from; pid < to; pid++ {
			for i := range events {
				events[i].PID, events[i].Time, events[i].Task.Start = pid, r.clock.Now()+uint64(i), r.clock.Now()
			}
			r.src.Push(events...)
			r.clock.Advance(time.Millisecond)
			if pid%1000 == 0 {
				r.drain(t)
			}
		}
		r.drain(t)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n = 20000
	before := heap(2, 3000)
	each := float64(heap(3000, 3000+n)-before) / n
	if t.Logf("%.0f bytes", each); each > 400 {
		t.Errorf("got %.0f bytes for a process, want at most 400", each)
	}
	runtime.KeepAlive(r)
}

// discard is a sink without an engine.
type discard struct{ r engine.RawEvent }

func (d *discard) Room() int                  { return 1 << 20 }
func (d *discard) Reserve() *engine.RawEvent  { return &d.r }
func (d *discard) Insert(r *engine.RawEvent)  { r.Reset() }
func (d *discard) Release(r *engine.RawEvent) { r.Reset() }

// BenchmarkEngine reports the cost per raw event: "ns/raw" includes the fake source,
// "source-ns/raw" is the fake source alone. An iteration has three raw events.
func BenchmarkEngine(b *testing.B) {
	for name, matrix := range map[string]*engine.Matrix{"joined": nil, "apart": new(engine.Matrix)} {
		b.Run(name, func(b *testing.B) {
			r, step := steady(b, engine.Options{Matrix: matrix})
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				step()
			}
			b.StopTimer()
			events, sink, start := life(), new(discard), time.Now()
			for range b.N {
				r.src.Push(events...)
				if err := r.src.Populate(sink); err != nil {
					b.Fatal(err)
				}
			}
			source := time.Since(start)
			perRaw := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(3*b.N) }
			b.ReportMetric(perRaw(b.Elapsed()), "ns/raw")
			b.ReportMetric(perRaw(source), "source-ns/raw")
			b.ReportMetric(float64(r.Buffered()), "buffered")
		})
	}
}
