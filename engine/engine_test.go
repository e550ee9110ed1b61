package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

const ms = uint64(time.Millisecond)

// rig is an engine on a fake source and a fake clock.
type rig struct {
	*engine.Engine
	src   *enginetest.Source
	clock *enginetest.Clock
}

// newRig returns an engine on a source whose capability table has the given fields.
func newRig(t testing.TB, opts engine.Options, fields ...engine.Field) *rig {
	t.Helper()
	r := &rig{src: new(enginetest.Source), clock: enginetest.NewClock()}
	for _, f := range fields {
		r.src.Capabilities().Fields[f].Origin = engine.OriginKernel
	}
	var err error
	if r.Engine, err = engine.New(r.src, r.clock.Engine(), opts); err != nil {
		t.Fatal(err)
	}
	return r
}

// drain lets all events get old enough and returns one line for each.
func (r *rig) drain(t testing.TB) (lines []string) {
	t.Helper()
	r.clock.Advance(2 * time.Second)
	for {
		ev, err := r.Get()
		switch {
		case errors.Is(err, engine.ErrNothing):
			return lines
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, fmt.Sprintf("%d %s", ev.Process.PID, ev.Events))
		}
	}
}

func raw(kind engine.Kind, pid uint32, at uint64) enginetest.Raw {
	return enginetest.Raw{Kind: kind, PID: pid, Time: uint64(time.Second) + at}
}

func started(r enginetest.Raw, start uint64) enginetest.Raw {
	r.Task.Known = r.Task.Known.With(engine.FieldStart)
	r.Task.Start, r.Task.StartUnit = start, 1
	return r
}

func exited(r enginetest.Raw, status int32) enginetest.Raw {
	r.Task.Known = r.Task.Known.With(engine.FieldExit)
	r.Task.Exit = engine.Exit{WaitStatus: status, Time: r.Time}
	return r
}

const (
	fork = engine.KindFork
	exec = engine.KindExec
	exit = engine.KindExit
	comm = engine.KindSetProcTitle
	ids  = engine.KindIDChange
	core = engine.KindCoreDump
)

func TestAggregation(t *testing.T) {
	tests := []struct {
		name  string
		opts  engine.Options
		kinds []engine.Kind
		want  []string
	}{
		{"whole life", engine.Options{}, []engine.Kind{fork, exec, exit}, []string{"1 FORK+EXEC+EXIT"}},
		{"core dump", engine.Options{}, []engine.Kind{fork, exec, core, exit}, []string{"1 FORK+EXEC+EXIT+CORE_DUMP"}},
		{"two execs", engine.Options{}, []engine.Kind{fork, exec, exec, exit}, []string{"1 FORK+EXEC", "1 EXEC+EXIT"}},
		{"exec after id change", engine.Options{}, []engine.Kind{fork, ids, exec, exit},
			[]string{"1 FORK+ID_CHANGE", "1 EXEC+EXIT"}},
		{"id change after exec", engine.Options{}, []engine.Kind{fork, exec, ids, exit},
			[]string{"1 FORK+EXEC", "1 ID_CHANGE", "1 EXIT"}},
		{"id change stands alone", engine.Options{}, []engine.Kind{ids, ids, exit}, []string{"1 ID_CHANGE", "1 EXIT"}},
		{"comms", engine.Options{}, []engine.Kind{comm, comm, exit}, []string{"1 EXIT+SETPROCTITLE"}},
		{"comm before exec", engine.Options{}, []engine.Kind{fork, comm, exec}, []string{"1 FORK+EXEC+SETPROCTITLE"}},
		{"minimal", engine.Options{MinAgg: true}, []engine.Kind{fork, exec, exit}, []string{"1 FORK", "1 EXEC", "1 EXIT"}},
		{"minimal joins comm", engine.Options{MinAgg: true}, []engine.Kind{fork, comm, exec, comm, exit},
			[]string{"1 FORK+SETPROCTITLE", "1 EXEC+SETPROCTITLE", "1 EXIT"}},
		{"none at all", engine.Options{Matrix: new(engine.Matrix)}, []engine.Kind{comm, comm},
			[]string{"1 SETPROCTITLE", "1 SETPROCTITLE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.opts)
			for i, k := range tt.kinds {
				// Events of another pid in between have no effect.
				ev := raw(k, 1, uint64(i))
				if k == ids {
					ev.IDChange = engine.ChangedUID
				}
				r.src.Push(ev)
			}
			if diff := cmp.Diff(tt.want, r.drain(t)); diff != "" {
				t.Error(diff)
			}
			st, err := r.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if n := uint64(len(tt.kinds)); st.Insertions != n || st.Removals != n ||
				st.Aggregations+st.NonAggregations != uint64(len(tt.want)) {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestThreadEventsStandAlone(t *testing.T) {
	r := newRig(t, engine.Options{})
	thread := raw(fork, 1, 1)
	thread.Thread, thread.TID = true, 7
	gone := raw(exit, 1, 2)
	gone.Thread, gone.TID = true, 7
	r.src.Push(raw(fork, 1, 0), thread, gone, exited(raw(exit, 1, 3), 0))
	if diff := cmp.Diff([]string{"1 FORK", "1 FORK", "1 EXIT", "1 EXIT"}, r.drain(t)); diff != "" {
		t.Error(diff)
	}
	if p := r.Lookup(1); p == nil || !p.Exited {
		t.Error("the process has not ended")
	}
}

// The event of a thread has the thread's own comm, ids and status, never those of the leader.
func TestThreadsOwnState(t *testing.T) {
	r := newRig(t, engine.Options{MinAgg: true})
	r.src.Push(withFields(exec, 1, 0, allButExit))
	before := r.onlyEvent(t).Process
	for _, kind := range []engine.Kind{comm, engine.KindIDChange, exit, fork} {
		ev := raw(kind, 1, 10)
		ev.Thread, ev.TID = true, 7
		ev.Task.Known = engine.FieldsIDs
		ev.Task.Cred.UID, ev.IDChange = 5, engine.ChangedUID
		if kind == exit {
			ev = exited(ev, 3<<8)
		}
		if kind == comm {
			ev.Comm = []byte("thread")
		}
		r.src.Push(ev)
		p := r.onlyEvent(t).Process
		own := engine.FieldsThread
		want := engine.FieldsIDs
		switch kind {
		case exit:
			want |= engine.FieldExit.Set()
		case comm:
			want |= engine.FieldComm.Set()
		}
		if got := p.Known & own; got != want || p.Known&^own != before.Known&^own {
			t.Errorf("%v: got known %v, want %v", kind, p.Known, want)
		}
		if p.Cred.UID != 5 || p.Cached&own != 0 || p.Exited || kind == exit && p.Task.Exit.Code() != 3 ||
			kind == comm && p.Comm != "thread" {
			t.Errorf("%v: got %+v", kind, p)
		}
		if text := string(p.AppendDump(nil)); strings.Contains(text, "exit_code=3") != (kind == exit) {
			t.Error(text)
		}
	}
	if diff := cmp.Diff(before.Cred, r.Lookup(1).Cred); diff != "" || r.Lookup(1).Comm != before.Comm {
		t.Error("the process has changed", diff)
	}
}

// The event of a thread updates the fields of the process that all threads share.
func TestProcessOfThreadEvent(t *testing.T) {
	r := newRig(t, engine.Options{MinAgg: true})
	ev := withFields(comm, 1, 10, allButExit)
	ev.Thread, ev.TID, ev.Task.Start, ev.Task.PGID = true, 7, 5, 6
	r.src.Push(ev)
	seen := r.onlyEvent(t).Process
	p := r.LookupIdentity(engine.Identity{PID: 1, Start: 5})
	if p == nil || p.PGID != 6 || p.Exited || p.Known&^seen.Known != 0 || p.Known.Has(engine.FieldComm) || p.Known.Has(engine.FieldUIDs) {
		t.Errorf("the table has %+v after the event of %+v", p, seen)
	}
}

// The end of a thread of an unknown process adds no process to the table: the process may already
// have ended, and would never leave the table. A rounded start time does not prove the opposite.
func TestThreadOfAnUnknownProcess(t *testing.T) {
	const start = uint64(time.Second)
	for n := range 4 {
		hasStart, processEnds := n&1 != 0, n&2 != 0
		r := newRig(t, engine.Options{MinAgg: true})
		thread, end := exited(raw(exit, 3, 50), 3<<8), exited(raw(exit, 3, 40), 9)
		if hasStart {
			thread, end = started(thread, start+7), started(end, start)
			end.Task.StartUnit = engine.ProcStartUnit
		}
		thread.Thread, thread.TID, thread.Task.PPID = true, 7, 2
		thread.Task.Known |= engine.FieldPPID.Set()
		events := []enginetest.Raw{thread}
		if processEnds {
			events = append([]enginetest.Raw{end}, thread)
		}
		r.src.Push(events...)
		r.clock.Advance(2 * time.Second)
		var last *engine.Event
		for range events {
			ev, err := r.Get()
			if err != nil {
				t.Fatal(err)
			}
			last = ev
		}
		if p := last.Process; p.PID != 3 || p.PPID != 2 || p.Exited || !last.Thread {
			t.Errorf("got %+v in the event of a thread, want process 3, not exited", p)
		}
		if p := r.Lookup(3); (p != nil) != processEnds || p != nil && !p.Exited {
			t.Errorf("start time %v: got %+v in the table, want an exited process: %v", hasStart, p, processEnds)
		}
	}
}

// A process whose first event is of a thread may have any marks, in this event and later ones.
func TestMarksOfUnknownProcessOfThread(t *testing.T) {
	for _, kind := range []engine.Kind{fork, comm, exit} {
		r := newRig(t, engine.Options{MinAgg: true, Judge: func(*engine.Event) engine.Verdict { return engine.VerdictPass }})
		thread := started(raw(kind, 3, 50), 5)
		thread.Thread, thread.TID = true, 7
		r.src.Push(thread, started(raw(exec, 3, 60), 5))
		r.clock.Advance(2 * time.Second)
		for range 2 {
			ev, err := r.Get()
			if err != nil {
				t.Fatal(err)
			}
			if m := ev.Process.Marks; m.Maybe != ^uint32(0) {
				t.Errorf("%s after a thread's %s: got marks %+v", ev.Events, kind, m)
			}
		}
	}
}

// An exec that fails after the old image is gone creates no EXEC, but the old image is no longer
// valid.
func TestFailedExec(t *testing.T) {
	const image = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldArgs)
	r := newRig(t, engine.Options{MinAgg: true})
	numbered := func(ev enginetest.Raw, image uint16) enginetest.Raw {
		ev.Image = image
		return ev
	}
	child := numbered(raw(fork, 2, 10), 5)
	child.Creator = 1
	// The creator has an image that no EXEC reported.
	stranger := numbered(raw(fork, 3, 20), 6)
	stranger.Creator = 1
	r.src.Push(numbered(withFields(exec, 1, 0, allButExit), 5), child, stranger,
		numbered(raw(core, 2, 30), 5), numbered(raw(exit, 2, 40), 6))
	r.clock.Advance(2 * time.Second)
	for i, want := range []engine.Fields{image, image, 0, image, 0} {
		ev, err := r.Get()
		if err != nil {
			t.Fatal(err)
		}
		if got := ev.Process.Known & image; got != want {
			t.Errorf("event %d, %v of %d: got known %v, want %v", i, ev.Events, ev.Process.PID, got, want)
		}
	}
}

func TestHoldTime(t *testing.T) {
	r := newRig(t, engine.Options{HoldTime: 100 * time.Millisecond})
	r.src.Push(raw(fork, 1, 0))
	r.clock.Advance(99 * time.Millisecond)
	if _, err := r.Get(); !errors.Is(err, engine.ErrNothing) {
		t.Fatalf("after 99 ms: %v", err)
	}
	if d, ok := r.Wait(); !ok || d != time.Millisecond {
		t.Errorf("got Wait %v, %v", d, ok)
	}
	r.clock.Advance(time.Millisecond)
	if _, err := r.Get(); err != nil {
		t.Fatalf("after 100 ms: %v", err)
	}
	if _, ok := r.Wait(); ok {
		t.Error("an empty engine waits for a time")
	}
}

// holdingSource holds its last events back until the test releases them.
type holdingSource struct {
	enginetest.Source
	held []enginetest.Raw
}

func (s *holdingSource) Held() (oldest uint64, ok bool) {
	if len(s.held) == 0 {
		return 0, false
	}
	return s.held[0].Time, true
}

// Held events are joined with inserted events, however late the source inserts them.
func TestHeldEventsAreWaitedFor(t *testing.T) {
	src := &holdingSource{held: []enginetest.Raw{raw(exit, 1, 50*ms)}}
	src.Push(raw(fork, 1, 0), raw(fork, 2, 60*ms))
	clock := enginetest.NewClock()
	e, err := engine.New(src, clock.Engine(), engine.Options{HoldTime: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Engine: e, src: &src.Source, clock: clock}
	if lines := r.drain(t); len(lines) > 0 {
		t.Fatalf("delivered while an earlier event was held: got %q", lines)
	}
	src.Push(src.held...)
	src.held = nil
	if d := cmp.Diff([]string{"1 FORK+EXIT", "2 FORK"}, r.drain(t)); d != "" {
		t.Error(d)
	}
}

// Events of many processes and CPUs come in disorder within the hold time and
// leave in order, each raw event once.
func TestOrderAndConservation(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		// A minute of grace keeps the count of processes simple.
		r := newRig(t, engine.Options{MaxLength: 200, Matrix: new(engine.Matrix), CacheGraceTime: time.Minute})
		var times, want []uint64
		push := func(n int) {
			for range n {
				at := r.clock.Now() - rnd.Uint64N(50*ms)
				want = append(want, at)
				r.src.Push(enginetest.Raw{Kind: comm, PID: uint32(rnd.IntN(20)), Time: at})
			}
		}
		for range 200 {
			push(rnd.IntN(8))
			r.clock.Advance(20 * time.Millisecond)
			for {
				ev, err := r.Get()
				if err != nil {
					break
				}
				times = append(times, ev.Time)
			}
			st, _ := r.Stats()
			if got := uint64(len(times)+st.Buffered+r.src.Queued()) + st.Lost(); got != st.Source.Produced {
				t.Fatalf("seed %d: %d events produced, %d inserted or lost", seed, st.Source.Produced, got)
			}
		}
		r.clock.Advance(2 * time.Second)
		for {
			ev, err := r.Get()
			if err != nil {
				break
			}
			times = append(times, ev.Time)
		}
		slices.Sort(want)
		if !slices.Equal(times, want) {
			t.Fatalf("seed %d: got %d of %d events, sorted %v", seed, len(times), len(want), slices.IsSorted(times))
		}
		if st, _ := r.Stats(); st.Late != 0 {
			t.Fatalf("seed %d: got %d late events, want none", seed, st.Late)
		}
	}
}

func TestLateIsCounted(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.src.Push(raw(fork, 1, 10))
	r.drain(t)
	r.src.Push(raw(fork, 2, 5), gapAt(6, 7, 1))
	r.drain(t)
	if st, _ := r.Stats(); st.Late != 2 {
		t.Errorf("got %d late events", st.Late)
	}
}

func TestGraceTime(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: 4 * time.Second})
	r.src.Push(raw(fork, 1, 0), exited(raw(exit, 1, 1), 3<<8))
	r.drain(t)
	r.clock.Advance(3999 * time.Millisecond)
	r.Get()
	if p := r.Lookup(1); p == nil || !p.Exited || p.Task.Exit.Code() != 3 {
		t.Fatalf("inside the grace time: got %+v", p)
	}
	r.clock.Advance(time.Millisecond)
	r.Get()
	if p := r.Lookup(1); p != nil {
		t.Fatalf("after the grace time: got %+v", p)
	}
	if st, _ := r.Stats(); st.GarbageCollections != 1 || st.Processes != 0 {
		t.Errorf("stats %+v", st)
	}
}

// family returns the events of a process that forks a child, and the FORK of the child, which
// outlives it.
func family(status int32) []enginetest.Raw {
	image := raw(exec, 1, ms)
	image.ExecPath = []byte("parent")
	child := started(raw(fork, 2, 1200*ms), 200)
	child.Creator, child.Task.PPID = 1, 1
	child.Task.Known = child.Task.Known.With(engine.FieldPPID)
	return []enginetest.Raw{started(raw(fork, 1, 0), 100), image, child, exited(raw(exit, 1, 1300*ms), status)}
}

// All events of a process are applied with its FORK. The FORK of its child may be delivered much
// later: the caller may be slow, or the source may hold the FORK back. The process stays in the
// table until then, and is then removed.
func TestParentOfLateDelivery(t *testing.T) {
	for name, hold := range map[string]bool{"slow caller": false, "held back": true} {
		src, clock := new(holdingSource), enginetest.NewClock()
		r := &rig{src: &src.Source, clock: clock}
		var err error
		if r.Engine, err = engine.New(src, clock.Engine(), engine.Options{CacheGraceTime: 4 * time.Second}); err != nil {
			t.Fatal(err)
		}
		events := family(0)
		if hold {
			src.held = events[2:3]
			src.Push(events[0], events[1], events[3])
		} else {
			src.Push(events...)
		}
		r.clock.Advance(2 * time.Second)
		if ev, err := r.Get(); err != nil || ev.Events != engine.EventFork|engine.EventExec|engine.EventExit {
			t.Fatalf("%s: the parent: %v %v", name, ev, err)
		}
		r.clock.Advance(time.Hour)
		if hold {
			if _, err := r.Get(); !errors.Is(err, engine.ErrNothing) {
				t.Fatal(err)
			}
			src.Push(src.held...)
			src.held = nil
		}
		ev, err := r.Get()
		if err != nil || ev.Events != engine.EventFork {
			t.Fatalf("%s: the child: %v %v", name, ev, err)
		}
		want := engine.Birth{Parent: engine.Identity{PID: 1, Start: 100}, Known: engine.SetOf(engine.FieldPPID, engine.FieldStart)}
		if p := ev.Process; p.Birth != want || p.ExecPath != "parent" {
			t.Errorf("%s: the child has birth %+v, %q", name, p.Birth, p.ExecPath)
		}
		r.Get()
		if r.Lookup(1) != nil || r.Lookup(2) == nil {
			t.Errorf("%s: the parent is still in the table", name)
		}
	}
}

// However slow the caller is, the table keeps processes that ended within the grace time of the
// events. An end with a time ahead of the clock keeps no others.
func TestGraceTimeOfASlowCaller(t *testing.T) {
	const grace = 100 * time.Millisecond
	r := newRig(t, engine.Options{MaxLength: 500, CacheGraceTime: grace})
	r.src.Push(started(raw(fork, 1, 0), 100), exited(raw(exit, 1, uint64(time.Hour)), 0))
	pid, most := uint32(1), 0
	for range 5000 {
		for range 10 { // a process each millisecond, of which ten run at a time
			r.clock.Advance(time.Millisecond)
			at := r.clock.Now() - uint64(time.Second)
			pid++
			r.src.Push(started(raw(fork, pid, at), at))
			if pid > 12 {
				r.src.Push(exited(raw(exit, pid-10, at), 0))
			}
		}
		if _, err := r.Get(); err != nil && !errors.Is(err, engine.ErrNothing) {
			t.Fatal(err)
		}
		st, _ := r.Stats()
		most = max(most, st.Processes)
	}
	// Joined events can be ahead of the rest of the buffer.
	if most > 10+100+500 {
		t.Errorf("%d processes", most)
	}
}

func count(r *rig) (n int) {
	for range r.Processes() {
		n++
	}
	return n
}

// A process that is forked while /proc is read appears twice, and is one process, also after a gap.
func TestSnapshotMeetsFork(t *testing.T) {
	birth, start := raw(fork, 1, 12*ms), uint64(time.Second)+12*ms
	for i, c := range []struct {
		seen, start, unit uint64
		events            []enginetest.Raw
		processes         int
	}{
		{50 * ms, start, 1, []enginetest.Raw{started(birth, start)}, 1},
		{50 * ms, start - 2*ms, engine.ProcStartUnit, []enginetest.Raw{started(birth, start)}, 1},
		{50 * ms, start - 2*ms, engine.ProcStartUnit, []enginetest.Raw{birth}, 1},
		{50 * ms, start - 2*ms, engine.ProcStartUnit, []enginetest.Raw{gapAt(5*ms, 60*ms, 1), birth}, 1},
		{5 * ms, start - 12*ms, engine.ProcStartUnit, []enginetest.Raw{birth}, 2},
	} {
		r := newRig(t, engine.Options{CacheGraceTime: time.Hour})
		var seen engine.RawEvent
		first := started(raw(fork, 1, c.seen), c.start)
		first.Task.StartUnit, first.Exe = c.unit, []byte("/bin/new")
		first.Fill(&seen)
		r.Learn(&seen)
		r.src.Push(c.events...)
		r.drain(t)
		if p := r.Lookup(1); count(r) != c.processes || c.processes == 1 && (p.Start != c.start || p.Image.Exe != "/bin/new") {
			t.Errorf("case %d: got %d processes, want %d; start %d, executable %q", i, count(r), c.processes, p.Start, p.Image.Exe)
		}
	}
}

func TestInheritance(t *testing.T) {
	r := newRig(t, engine.Options{})
	parent := raw(fork, 1, 0)
	image := raw(exec, 1, 10)
	image.Exe, image.Args = []byte("/bin/sh"), []byte("sh\x00-c\x00")
	child := raw(fork, 2, 20)
	child.Creator = 1
	second := raw(exec, 1, 30)
	second.Exe = []byte("/bin/second")
	orphan := raw(fork, 3, 40)
	// The creator's FORK and EXEC are joined and delivered before this event.
	sub, between, becomes := raw(fork, 4, 50), raw(fork, 5, 60), raw(exec, 4, 70)
	sub.Creator, between.Creator = 2, 4
	becomes.Exe = []byte("/bin/foo")
	r.src.Push(parent, image, child, second, orphan, sub, between, becomes)
	r.drain(t)
	if a, b := r.Lookup(4), r.Lookup(5); a.Image.Exe != "/bin/foo" || b.Known.Has(engine.FieldExe) {
		t.Errorf("got executable %q of the parent, want /bin/foo; got %q of the child, want unknown", a.Image.Exe, b.Image.Exe)
	}
	p := r.Lookup(2)
	if !p.Known.Has(engine.FieldExe) || p.Image.Exe != "/bin/sh" || string(p.Image.Args) != "sh\x00-c\x00" {
		t.Errorf("child has %q %q", p.Image.Exe, p.Image.Args)
	}
	if r.Lookup(3).Known.Has(engine.FieldExe) {
		t.Error("a child of an unknown creator inherits")
	}
	if p := r.Lookup(1); p.Image.Exe != "/bin/second" || p.Known.Has(engine.FieldArgs) {
		t.Errorf("after an exec without cmdline: got arguments %q", p.Image.Args)
	}
}

func TestWhatAnEventMayHaveChangedIsUnknown(t *testing.T) {
	r := newRig(t, engine.Options{})
	first := raw(fork, 1, 0)
	first.Task.Known = engine.AllFields &^ (engine.FieldComm.Set() | engine.FieldExe.Set() | engine.FieldArgs.Set() |
		engine.FieldCwd.Set() | engine.FieldCgroup.Set() | engine.FieldExit.Set() | engine.FieldsUsage)
	first.Comm = []byte("a")
	r.src.Push(first)
	r.drain(t)
	setuid := raw(ids, 1, 10)
	setuid.IDChange = engine.ChangedUID
	setuid.Task.Known = engine.FieldUIDs.Set()
	setuid.Task.Cred.UID = 5
	r.src.Push(setuid)
	r.drain(t)
	p := r.Lookup(1)
	if p.Known.Has(engine.FieldSUID) || p.Known.Has(engine.FieldCaps) || !p.Known.Has(engine.FieldUIDs) || p.Cred.UID != 5 {
		t.Errorf("known after setuid: got %v", p.Known)
	}
	if !p.Known.Has(engine.FieldSGID) || !p.Known.Has(engine.FieldComm) {
		t.Errorf("too few fields are known: got %v", p.Known)
	}
	r.src.Push(raw(exec, 1, 20))
	r.drain(t)
	if p = r.Lookup(1); p.Known.Has(engine.FieldComm) {
		t.Error("comm is known after an exec without comm")
	}
	// A process can change these fields between fork and exec without an event.
	for _, f := range []engine.Field{engine.FieldPGID, engine.FieldTTY, engine.FieldMntNS, engine.FieldNetNS, engine.FieldUTSNS, engine.FieldIPCNS} {
		if p.Known.Has(f) {
			t.Errorf("%s is known after an exec without it", f)
		}
	}
	if !p.Known.Has(engine.FieldUIDs) || !p.Known.Has(engine.FieldSID) || !p.Known.Has(engine.FieldPPID) {
		t.Errorf("too few fields are known after an exec: got %v", p.Known)
	}
}

// After the end of its parent a process has another parent, which is unknown unless the EXIT has
// it.
func TestParentAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		parentEnds uint64 // 0: not
		told, want uint32 // 0: unknown
	}{
		{"parent lives", 0, 0, 1},
		{"parent ended", 20, 0, 0},
		{"parent ended, the new one is told", 20, 9, 9},
		{"parent ended later, joined with its FORK", 40, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, engine.Options{})
			child := raw(fork, 2, 10)
			child.Task.PPID, child.Task.Known = 1, engine.FieldPPID.Set()
			r.src.Push(raw(fork, 1, 0), child)
			if c.parentEnds != 0 {
				r.src.Push(exited(raw(exit, 1, c.parentEnds), 0))
			}
			end := exited(raw(exit, 2, 30), 0)
			if c.told != 0 {
				end.Task.PPID = c.told
				end.Task.Known |= engine.FieldPPID.Set()
			}
			r.src.Push(end)
			r.drain(t)
			p := r.Lookup(2)
			cached := p.Cached.Has(engine.FieldPPID)
			if got := p.Known.Has(engine.FieldPPID); got != (c.want != 0) || got && (p.PPID != c.want || cached == (c.told != 0)) {
				t.Errorf("got ppid %d, known %v, cached %v", p.PPID, got, cached)
			}
		})
	}
}

func TestIDChangeWithoutChange(t *testing.T) {
	r := newRig(t, engine.Options{})
	first := raw(fork, 1, 0)
	first.Task.Known = engine.FieldsIDs
	same := raw(ids, 1, 10)
	same.IDChange, same.Task.Known = engine.ChangedUID, engine.FieldsIDs
	r.src.Push(first)
	r.drain(t)
	r.src.Push(same)
	if lines := r.drain(t); len(lines) != 0 {
		t.Errorf("delivered %v", lines)
	}
	// A change does not get the time of a call that changed nothing.
	same = raw(ids, 1, 20)
	changed := raw(ids, 1, 30)
	same.IDChange, same.Task.Known = engine.ChangedUID, engine.FieldsIDs
	changed.IDChange, changed.Task = engine.ChangedUID, same.Task
	changed.Task.Cred.UID = 5
	r.src.Push(same, changed)
	r.clock.Advance(2 * time.Second)
	if ev, err := r.Get(); err != nil || ev.Time != changed.Time || ev.Process.Cred.UID != 5 {
		t.Errorf("got event %+v, error %v, want time %d and uid 5", ev, err, changed.Time)
	}
}

// A call that changes nothing adds no values to an earlier event, and does not prevent joining.
func TestIDChangeWithoutChangeIsNoPart(t *testing.T) {
	r := newRig(t, engine.Options{})
	birth, same, begin := raw(fork, 1, 0), raw(ids, 1, 10), raw(exec, 1, 20)
	birth.Task.Known = engine.FieldsIDs.With(engine.FieldPPID)
	birth.Task.PPID = 7
	same.IDChange, same.Task = engine.ChangedUID, birth.Task
	same.Task.PPID = 1
	r.src.Push(birth, same)
	r.clock.Advance(2 * time.Second)
	if ev, err := r.Get(); err != nil || ev.Events != engine.EventFork || ev.Process.PPID != 7 {
		t.Errorf("got %+v, %v", ev, err)
	}
	birth.PID, same.PID, begin.PID = 2, 2, 2
	r.src.Push(birth, same, begin)
	if lines := r.drain(t); len(lines) != 1 || lines[0] != "2 FORK+EXEC" {
		t.Errorf("delivered %v", lines)
	}
}

// Setting the old ids is an event if a change since may not have been reported.
func TestIDChangeAfterAnUnseenOne(t *testing.T) {
	all := new(enginetest.Source).Capabilities()
	some := *all
	some.Kinds[ids].Partial = engine.EventIDChange
	for _, c := range []struct {
		name  string
		table *engine.CapabilityTable
		lost  []enginetest.Raw
		want  bool
	}{
		{"all are reported", all, nil, false},
		{"some are not", &some, nil, true},
		{"one was lost", all, []enginetest.Raw{gapAt(10, 20, 1)}, true},
	} {
		src := new(enginetest.Source)
		clock := enginetest.NewClock()
		e, err := engine.New(partial{src, c.table}, clock.Engine(), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, again := started(raw(fork, 1, 0), 5), started(raw(ids, 1, 30), 5)
		first.Task.Known |= engine.FieldsIDs
		again.IDChange, again.Task.Known = engine.ChangedUID, first.Task.Known
		src.Push(append(c.lost, first, again)...)
		clock.Advance(2 * time.Second)
		got := false
		for ev, err := e.Get(); err == nil; ev, err = e.Get() {
			got = got || ev.Events.Has(engine.EventIDChange)
		}
		if got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestFilter(t *testing.T) {
	r := newRig(t, engine.Options{Filter: func(ev *engine.Event) bool { return ev.Process.PID != 1 }})
	r.src.Push(raw(fork, 1, 0), raw(fork, 2, 1))
	if diff := cmp.Diff([]string{"2 FORK"}, r.drain(t)); diff != "" {
		t.Error(diff)
	}
	if r.Lookup(1) == nil {
		t.Error("a filtered event left no process")
	}
}

func TestSourceError(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.src.Close()
	if _, err := r.Get(); err == nil || !strings.Contains(err.Error(), "read from enginetest") {
		t.Errorf("got %v", err)
	}
}

// failing is a source that fails after its last event.
type failing struct {
	*enginetest.Source
	err error
}

func (s failing) Populate(to engine.Sink) error {
	if err := s.Source.Populate(to); err != nil {
		return err
	}
	return s.err
}

func (s failing) Held() (uint64, bool) { return 0, true }

// Events that a source inserted before its error are delivered before the error, and nothing after
// it.
func TestToldBeforeError(t *testing.T) {
	src, clock := new(enginetest.Source), enginetest.NewClock()
	e, err := engine.New(failing{src, syscall.EIO}, clock.Engine(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src.Push(raw(engine.KindFork, 5, 10), raw(engine.KindFork, 6, 20))
	for pid := uint32(5); pid <= 6; pid++ {
		if ev, err := e.Get(); err != nil || ev.Process.PID != pid {
			t.Fatalf("got %+v, %v", ev, err)
		}
	}
	for range 2 {
		if ev, err := e.Get(); !errors.Is(err, syscall.EIO) || !e.Drained() {
			t.Errorf("%+v, %v, drained %v", ev, err, e.Drained())
		}
	}
}

func TestWrongOptions(t *testing.T) {
	for want, opts := range map[string]engine.Options{
		"MaxLength":      {MaxLength: -1},
		"HoldTime":       {HoldTime: 9 * time.Millisecond},
		"CacheGraceTime": {CacheGraceTime: -1},
		"Matrix":         {MinAgg: true, Matrix: new(engine.Matrix)},
	} {
		_, err := engine.New(new(enginetest.Source), enginetest.NewClock().Engine(), opts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestCloneOutlivesGet(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: time.Nanosecond})
	ev := raw(exec, 1, 0)
	ev.Args = []byte("first\x00")
	r.src.Push(ev, exited(raw(exit, 1, 1), 0))
	r.clock.Advance(2 * time.Second)
	got, err := r.Get()
	if err != nil {
		t.Fatal(err)
	}
	kept := got.Clone()
	r.clock.Advance(time.Second)
	ev.PID, ev.Args = 2, []byte("other\x00")
	r.src.Push(ev)
	r.drain(t)
	if string(kept.Process.Image.Args) != "first\x00" || kept.Process.PID != 1 {
		t.Errorf("the clone changed to pid %d, arguments %q", kept.Process.PID, kept.Process.Image.Args)
	}
}

// A drain delivers all that the source has queued, however small the buffer is.
func TestDrainDeliversAll(t *testing.T) {
	for _, length := range []int{1, 2, 3, 100, 10000} {
		for _, n := range []int{0, 1, 2, 99, 100, 101, 6000} {
			r := newRig(t, engine.Options{MaxLength: length, Matrix: new(engine.Matrix), HoldTime: time.Hour})
			push := func(n int) {
				for range n {
					r.src.Push(enginetest.Raw{Kind: comm, PID: 1, Time: r.clock.Now()})
					r.clock.Advance(1)
				}
			}
			push(n)
			if err := r.Drain(); err != nil {
				t.Fatal(err)
			}
			got := 0
			for i := 0; i < 200 && !r.Drained(); {
				if _, err := r.Get(); err == nil {
					got++
					continue
				}
				i++
				r.clock.Advance(time.Millisecond)
			}
			if got != n || r.src.Queued() != 0 || !r.Drained() {
				t.Errorf("length %d: got %d of %d events, %d queued, drained %v", length, got, n, r.src.Queued(), r.Drained())
			}
			push(3)
			if _, err := r.Get(); !errors.Is(err, engine.ErrNothing) {
				t.Errorf("after the drain: %v", err)
			}
		}
	}
}

// A full buffer delivers events and gets new ones, also if the events' times are ahead of the
// clock.
func TestFullBufferDelivers(t *testing.T) {
	for _, length := range []int{1, 2, 3, 7} {
		r := newRig(t, engine.Options{MaxLength: length, Matrix: new(engine.Matrix)})
		for range 20 {
			r.src.Push(enginetest.Raw{Kind: comm, PID: 1, Time: r.clock.Now() + uint64(time.Hour)})
		}
		got := 0
		for ; got < 20; got++ {
			if _, err := r.Get(); err != nil {
				break
			}
		}
		if want := 20 - (length - 1); got != want || r.src.Queued() != 0 {
			t.Errorf("length %d: %d events, want %d; %d queued", length, got, want, r.src.Queued())
		}
	}
}

// endless is a source that always has more events.
type endless struct {
	enginetest.Source
	clock *enginetest.Clock
}

func (s *endless) Populate(to engine.Sink) error {
	for to.Room() > 0 {
		r := to.Reserve()
		r.Kind, r.PID, r.Time = comm, 1, s.clock.Now()
		s.clock.Advance(time.Microsecond)
		to.Insert(r)
	}
	return nil
}

// A drain ends although processes never stop producing events.
func TestDrainEnds(t *testing.T) {
	for _, hold := range []time.Duration{10 * time.Millisecond, time.Hour} {
		src := &endless{clock: enginetest.NewClock()}
		e, err := engine.New(src, src.clock.Engine(), engine.Options{MaxLength: 10, HoldTime: hold, Matrix: new(engine.Matrix)})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Drain(); err != nil {
			t.Fatal(err)
		}
		n := 0
		for end := int(2 * time.Second / time.Microsecond); n < end; n++ {
			if _, err := e.Get(); e.Drained() {
				break
			} else if err != nil {
				src.clock.Advance(time.Millisecond)
			}
		}
		if least := int(min(hold, time.Second) / time.Microsecond); !e.Drained() || n < least {
			t.Errorf("hold time %v: ended after %d events, drained %v", hold, n, e.Drained())
		}
	}
}

// twoRings is a source with the rings of two CPUs. Events happen on both while it reads the rings,
// and the first CPU needs 50 ms to write a record.
type twoRings struct {
	enginetest.Source
	clock  *enginetest.Clock
	random *rand.Rand
	first  []uint64 // times of the events in the ring that is read first
	left   int      // number of events that will happen
}

func (s *twoRings) Populate(to engine.Sink) error {
	insert := func(time uint64) {
		r := to.Reserve()
		r.Kind, r.PID, r.Time = comm, 1, time
		to.Insert(r)
	}
	for ; s.pending() && to.Room() > 0; s.first = s.first[1:] {
		insert(s.first[0])
	}
	if s.happens() {
		s.first = append(s.first, s.clock.Now())
	}
	if to.Room() > 0 && s.happens() {
		insert(s.clock.Now())
	}
	return nil
}

func (s *twoRings) happens() bool {
	s.clock.Advance(time.Microsecond)
	if s.left == 0 || s.random.IntN(2) == 0 {
		return false
	}
	s.left--
	return true
}

func (s *twoRings) pending() bool {
	return len(s.first) > 0 && s.first[0]+uint64(50*time.Millisecond) <= s.clock.Now()
}

func (s *twoRings) Arm(bool) bool { return !s.pending() }

// A drain delivers an event only after a read that could return all earlier events.
func TestDrainKeepsOrder(t *testing.T) {
	const all = 200
	for seed := range uint64(20) {
		src := &twoRings{clock: enginetest.NewClock(), random: rand.New(rand.NewPCG(1, seed)), left: all}
		e, err := engine.New(src, src.clock.Engine(), engine.Options{Matrix: new(engine.Matrix)})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Drain(); err != nil {
			t.Fatal(err)
		}
		n, last, began := 0, uint64(0), src.clock.Now()
		for !e.Drained() {
			ev, err := e.Get()
			if errors.Is(err, engine.ErrNothing) {
				src.clock.Advance(time.Millisecond)
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if ev.Time < last {
				t.Fatalf("seed %d: event %d is %d ns earlier than the previous event", seed, n, last-ev.Time)
			}
			n, last = n+1, ev.Time
		}
		// Events after the call of Drain need not be delivered.
		if len(src.first) > 0 && src.first[0] <= began || n == 0 {
			t.Errorf("seed %d: got %d of %d events, without %d of the first CPU", seed, n, all, len(src.first))
		}
	}
}

// The table in quark(7) has the default rules.
func TestManualHasTheDefaultMatrix(t *testing.T) {
	manual, err := os.ReadFile("../docs/quark.7")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(engine.DefaultMatrix().String(), "\n")
	if len(rows) < 5 {
		t.Fatalf("only %d rows:\n%s", len(rows), engine.DefaultMatrix())
	}
	blanks := regexp.MustCompile(" {2,}")
	for i, row := range rows {
		cells := blanks.Split(row, -1)
		want := ".It " + strings.Join(cells, " Ta ")
		if i == 0 {
			want = ".It Em " + strings.Join(cells, " Ta Em ")
		}
		if !strings.Contains(string(manual), want+"\n") {
			t.Errorf("quark(7) has no row %q", want)
		}
	}
	if got := new(engine.Matrix).String(); got != "first" {
		t.Errorf("a matrix without rules prints %q", got)
	}
}
