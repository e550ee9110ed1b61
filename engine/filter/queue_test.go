package filter_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/filter"
)

// compile returns the filter of an expression. If source has lines, it has rules.
func compile(t *testing.T, source string) *filter.Filter {
	t.Helper()
	parse := filter.Parse
	if strings.Contains(source, "\n") {
		parse = filter.ParseRules
	}
	f, err := parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// run returns the events of a source that a filter lets pass.
func run(t *testing.T, m *enginetest.Machine, source string, opts engine.Options) (lines []string, e *engine.Engine) {
	t.Helper()
	clock := m.Clock()
	matcher, err := compile(t, source).Matcher(clock)
	if err != nil {
		t.Fatal(err)
	}
	opts.Judge, opts.Tags = matcher.Judge, matcher.Tags()
	if e, err = engine.New(m, clock, opts); err != nil {
		t.Fatal(err)
	}
	m.Scan(func(r *engine.RawEvent) error {
		e.Learn(r)
		return nil
	})
	for !e.Drained() {
		ev, err := e.Get()
		if err == nil {
			lines = append(lines, fmt.Sprintf("%d %v", ev.Process.PID, ev.Events))
		} else if !errors.Is(err, engine.ErrNothing) {
			t.Fatal(err)
		}
	}
	return lines, e
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
}

// A joined event is matched as a whole. Dropped events are counted, and their processes are in the
// table.
func TestJoined(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	sh.Fork().Exec("/bin/true").Exit(0)
	sh.Fork().Exec("/tmp/x/y").Exit(3)
	sh.Fork()
	lines, e := run(t, m, `exec and exe ~ "/tmp/**" or fork and not exec`, engine.Options{})
	check(t, lines, "4 FORK+EXEC+EXIT", "5 FORK")
	s, err := e.Stats()
	if p := e.Lookup(3); err != nil || s.Filtered != 1 || s.Unsure != 0 || s.Aggregations+s.NonAggregations != 2 || p == nil || p.Image.Exe != "/bin/true" {
		t.Errorf("got stats %+v, error %v; process 3: %+v", s, err, p)
	}
	m = enginetest.NewMachine()
	m.Running("/bin/sh").Fork().Exec("/bin/true").Exit(0)
	lines, _ = run(t, m, "exec", engine.Options{MinAgg: true})
	check(t, lines, "3 EXEC")
}

// A tree has one process and all its descendants, also after the process ends. It has no other
// process.
func TestTree(t *testing.T) {
	make := func() *enginetest.Machine {
		m := enginetest.NewMachine()
		root, other := m.Running("/bin/sh"), m.Running("/sbin/sshd")
		a := root.Fork()
		root.Exit(0)
		m.Sleep(time.Minute) // until the root is no longer in the table
		b := a.Fork()
		other.Fork().Exit(0)
		a.Exit(0)
		m.Sleep(time.Minute)
		b.Fork().Exit(0)
		return m
	}
	lines, e := run(t, make(), "tree == 2", engine.Options{})
	check(t, lines, "4 FORK", "2 EXIT", "5 FORK", "4 EXIT", "7 FORK+EXIT")
	if s, _ := e.Stats(); s.Filtered != 1 || s.Unsure != 0 {
		t.Errorf("got stats %+v", s)
	}
	lines, _ = run(t, make(), "tree != (2, 4)", engine.Options{})
	check(t, lines, "6 FORK+EXIT")
	lines, _ = run(t, make(), "tree == 5", engine.Options{}) // a process that starts later
	check(t, lines, "5 FORK", "7 FORK+EXIT")
}

// If a process's fork was not seen, it is in the tree of its parent, unless the parent adopts
// orphans.
func TestTreeByParent(t *testing.T) {
	clock := enginetest.NewClock()
	src := new(enginetest.Source)
	m, err := compile(t, "tree == 10").Matcher(clock.Engine())
	if err != nil {
		t.Fatal(err)
	}
	verdicts, unsure := make(map[uint32]engine.Verdict), make(map[uint32]bool)
	e, err := engine.New(src, clock.Engine(), engine.Options{HoldTime: 10 * time.Millisecond, Judge: func(ev *engine.Event) engine.Verdict {
		verdicts[ev.Process.PID] = m.Judge(ev)
		return verdicts[ev.Process.PID]
	}})
	if err != nil {
		t.Fatal(err)
	}
	raw := func(kind engine.Kind, pid, ppid uint32) enginetest.Raw {
		r := enginetest.Raw{Kind: kind, PID: pid, Time: clock.Now()}
		r.Task.PPID, r.Task.Start, r.Task.StartUnit = ppid, uint64(pid), 1
		r.Task.Known = engine.SetOf(engine.FieldPPID, engine.FieldStart)
		return r
	}
	for pid, ppid := range map[uint32]uint32{1: 0, 10: 1, 11: 10, 20: 1} {
		learned, r := new(engine.RawEvent), raw(0, pid, ppid)
		r.Fill(learned)
		e.Learn(learned)
	}
	for pid, ppid := range map[uint32]uint32{30: 20, 31: 11, 32: 1, 33: 99} {
		src.Push(raw(engine.KindExec, pid, ppid))
	}
	clock.Advance(time.Second)
	for {
		ev, err := e.Get()
		if err != nil {
			break
		}
		json := string(ev.AppendJSON(nil, clock.Engine(), ""))
		unsure[ev.Process.PID] = ev.Unsure && strings.Contains(json, `"unsure":true`) && ev.AppendDump(nil)[0] == '~'
	}
	want := map[uint32]engine.Verdict{30: engine.VerdictDrop, 31: engine.VerdictPass, 32: engine.VerdictUnsure, 33: engine.VerdictUnsure}
	for pid := range want {
		if verdicts[pid] != want[pid] || unsure[pid] != (want[pid] == engine.VerdictUnsure) {
			t.Errorf("pid %d: got verdict %d, want %d; unsure %v", pid, verdicts[pid], want[pid], unsure[pid])
		}
	}
}

// A filter never drops a gap.
func TestGapsPass(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	sh.Fork()
	m.Miss(engine.LossRingFull, 3)
	sh.Exit(0)
	lines, _ := run(t, m, "drop on any\n", engine.Options{})
	check(t, lines, "0 GAP")
}

// An event for which the filter is unknown passes, and is counted.
func TestUnknownPasses(t *testing.T) {
	for source, want := range map[string]int{"uid == 0": 1, "uid != 0": 1, "uid == 0 and fork": 1, "uid == 0 and gone": 0, "uid == 0 and known uid": 0} {
		m := enginetest.NewMachine()
		sh := m.Running("/bin/sh")
		sh.State.Task.Known &^= engine.FieldsIDs
		sh.Fork().Exec("/bin/true").Exit(0)
		lines, e := run(t, m, source, engine.Options{})
		if s, _ := e.Stats(); len(lines) != want || s.Unsure != uint64(want) || s.Filtered != uint64(1-want) {
			t.Errorf("%s: got events %q, stats %+v", source, lines, s)
		}
	}
}

// simProcess is a process in a simulation.
type simProcess struct {
	pid, ppid uint32
	start     uint64
	inTree    bool
}

// Events are lost and pids are reused at random. Events that pass for sure are in the tree, and
// dropped events are not. Without losses, no result is unsure.
func TestTreeIsNeverWrong(t *testing.T) {
	passed, unsure, dropped := 0, 0, 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		lossy := seed%2 == 1
		src, clock := new(enginetest.Source), enginetest.NewClock()
		engineClock := clock.Engine()
		m, err := compile(t, "tree == 10").Matcher(engineClock)
		if err != nil {
			t.Fatal(err)
		}
		truth := make(map[uint64]bool) // by the time of the event
		trees := make(map[uint64]bool) // by the start of the process
		e, err := engine.New(src, engineClock, engine.Options{HoldTime: 10 * time.Millisecond, CacheGraceTime: time.Duration(1+rnd.IntN(20)) * 50 * time.Millisecond,
			Judge: func(ev *engine.Event) engine.Verdict {
				v := m.Judge(ev)
				if ev.Events == 0 {
					return v
				}
				in := truth[ev.Time]
				if ev.Events == engine.EventGone {
					in = trees[ev.Process.Start]
				}
				switch {
				case v == engine.VerdictPass && !in, v == engine.VerdictDrop && in, v == engine.VerdictUnsure && !lossy:
					t.Fatalf("seed %d: at %d, %v of pid %d: got verdict %d, in the tree: %v: %+v", seed, ev.Time, ev.Events, ev.Process.PID, v, in, ev.Process)
				case v == engine.VerdictUnsure:
					unsure++
				case in:
					passed++
				default:
					dropped++
				}
				return v
			}})
		if err != nil {
			t.Fatal(err)
		}
		world := map[uint32]*simProcess{1: {pid: 1, start: 1}, 10: {pid: 10, ppid: 1, start: 2, inTree: true}, 11: {pid: 11, ppid: 10, start: 3, inTree: true}, 5: {pid: 5, ppid: 11, start: 4, inTree: true}}
		raw := func(kind engine.Kind, b *simProcess) enginetest.Raw {
			r := enginetest.Raw{Kind: kind, PID: b.pid, Time: clock.Now()}
			r.Task.PPID, r.Task.Start, r.Task.StartUnit = b.ppid, b.start, 1
			r.Task.Known = engine.SetOf(engine.FieldPPID, engine.FieldStart)
			return r
		}
		for _, b := range world {
			r := new(engine.RawEvent)
			d := raw(0, b)
			trees[b.start] = b.inTree
			d.Fill(r)
			r.Time = clock.Now()
			e.Learn(r)
		}
		var lost engine.Gap
		push := func(r enginetest.Raw, b *simProcess) {
			truth[r.Time], trees[b.start] = b.inTree, b.inTree
			if lossy && rnd.IntN(10) == 0 {
				if lost.Count++; lost.From == 0 {
					lost.From = r.Time
				}
				lost.To = r.Time
				return
			}
			if lost.Count > 0 {
				lost.CPU = engine.AllCPUs
				src.Push(enginetest.Raw{Kind: engine.KindGap, Time: lost.From, Gap: lost})
				lost = engine.Gap{}
			}
			src.Push(r)
		}
		for range 200 {
			clock.Advance(time.Duration(1+rnd.IntN(20)) * time.Millisecond)
			pids := slices.Sorted(maps.Keys(world))
			b := world[pids[rnd.IntN(len(pids))]]
			switch pid := uint32(2 + rnd.IntN(12)); {
			case world[pid] == nil:
				child := &simProcess{pid: pid, ppid: b.pid, start: clock.Now(), inTree: b.inTree}
				world[pid] = child
				r := raw(engine.KindFork, child)
				r.Creator = b.pid
				push(r, child)
			case b.pid != 1 && rnd.IntN(2) == 0:
				delete(world, b.pid)
				for _, c := range world {
					if c.ppid == b.pid {
						c.ppid = 1
					}
				}
				push(raw(engine.KindExit, b), b)
			default:
				push(raw(engine.KindExec, b), b)
			}
			for {
				if _, err := e.Get(); err != nil {
					break
				}
			}
		}
	}
	if min(passed, dropped, unsure) < 500 {
		t.Errorf("got %d events in the tree, %d others, %d unsure: want more of each", passed, dropped, unsure)
	}
}

// The descendants that a process forks while it has a tag inherit the tag. An event names the rules
// that let it pass.
func TestTags(t *testing.T) {
	m := enginetest.NewMachine()
	server := m.Running("/usr/sbin/nginx")
	server.Fork().Fork().Exec("/bin/sh", "-c", "id").Exit(0)
	server.Fork().Exec("/usr/sbin/cron").Fork().Exec("/bin/sh", "-c", "job").Exit(0)
	m.Running("/sbin/init").Fork().Exec("/bin/sh").Exit(0)
	shell := "\"rules\":[\"web-shell\"]"
	lines, _ := run(t, m, "tag web if exe == nginx\nuntag web if exe == cron\n"+
		"web-shell: pass if exec and tag == web and exe == sh\nlost: pass if exit and not known comm\ndrop on any",
		engine.Options{Filter: func(ev *engine.Event) bool {
			ev = ev.Clone()
			text, json := string(ev.AppendDump(nil)), string(ev.AppendJSON(nil, m.Clock(), ""))
			if !slices.Equal(ev.Rules, []string{"web-shell"}) || !slices.Equal(ev.Process.Tags(), []string{"web"}) ||
				!strings.Contains(json, shell) || !strings.Contains(json, `"tags":["web"]`) ||
				!strings.Contains(text, "RULE\trules=web-shell\n") || !strings.Contains(text, "TAGS\ttags=web\n") {
				t.Errorf("got %s%s", text, json)
			}
			return true
		}})
	check(t, lines, "4 FORK+EXEC+EXIT")
	_, err := compile(t, "tag == web").Matcher(m.Clock())
	if err == nil || !strings.Contains(err.Error(), "no rule gives the tag web") {
		t.Errorf("got error %v, want no rule gives the tag", err)
	}
}
