package top

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// world has processes, and remembers everything that they did.
type world struct {
	now       uint64
	processes []*quark.Process
	parent    map[*quark.Process]*quark.Process
	did       []deed
}

// deed is an action of a process, with the ancestors that lived when it was counted.
type deed struct {
	time   uint64
	what   What
	by     *quark.Process
	living []*quark.Process
}

const begin = 1000 * second

func newWorld() *world { return &world{now: begin, parent: make(map[*quark.Process]*quark.Process)} }

func (w *world) born(parent *quark.Process, comm string) *quark.Process {
	p := &quark.Process{PID: uint32(len(w.processes) + 1), Comm: comm}
	p.Start, p.Known = w.now, quark.SetOf(quark.FieldStart, quark.FieldComm)
	w.processes = append(w.processes, p)
	w.parent[p] = parent
	return p
}

func (w *world) ancestors(p *quark.Process) (list []*quark.Process, whole bool) {
	for p = w.parent[p]; p != nil; p = w.parent[p] {
		list = append(list, p)
	}
	return list, true
}

func (w *world) find(id quark.Identity) *quark.Process {
	for _, p := range w.processes {
		if got, _ := p.Identity(); got == id {
			return p
		}
	}
	return nil
}

// does counts an event of p, whose parts take some time each.
func (w *world) does(m *Model, p *quark.Process, status int32, kinds ...engine.Kind) {
	ev := &quark.Event{Process: p}
	above, _ := w.ancestors(p)
	above = slices.DeleteFunc(above, func(a *quark.Process) bool { return a.Exited })
	for _, k := range kinds {
		w.now += uint64(rand.N(40 * time.Millisecond))
		ev.Events |= k.Events()
		ev.Parts = append(ev.Parts, quark.Part{Kind: k, Time: w.now})
		what := map[engine.Kind]What{engine.KindFork: Forks, engine.KindExec: Execs, engine.KindExit: Exits}[k]
		w.did = append(w.did, deed{w.now, what, p, above})
		if k == engine.KindExit {
			p.Exited, p.Known, p.Task.Exit.WaitStatus = true, p.Known|quark.SetOf(quark.FieldExit), status
			if status != 0 {
				w.did = append(w.did, deed{w.now, Failed, p, above})
			}
		}
	}
	m.Count(ev, w.ancestors)
}

// frame returns the expected frame, computed from everything that happened.
func (w *world) frame(hold time.Duration) *Frame {
	f := &Frame{Now: w.now}
	last := (w.now-uint64(hold)-slack)/second - 1
	first := uint64(begin/second + 1)
	if last < first {
		return f
	}
	f.Seconds = min(window, int(last-first)+1)
	perSecond := make(map[uint64]*Counts)
	trees := make(map[*quark.Process]*Counts)
	failed := make(map[string]*Failure)
	for _, d := range w.did {
		s := d.time / second
		f.Rates[d.what].Total++
		if perSecond[s] == nil {
			perSecond[s] = new(Counts)
		}
		perSecond[s][d.what]++
		if s <= last && s+window > last && s >= first {
			for _, a := range d.living {
				if trees[a] == nil {
					trees[a] = new(Counts)
				}
				trees[a][d.what]++
			}
		}
		if d.what == Failed {
			key := fmt.Sprintf("%s %d", d.by.Comm, d.by.Task.Exit.WaitStatus)
			if failed[key] == nil {
				failed[key] = new(Failure)
			}
			failed[key].Count++
			failed[key].Last = max(failed[key].Last, d.time)
		}
	}
	for s, c := range perSecond {
		for what := range f.Rates {
			if s >= first && s <= last {
				f.Rates[what].Peak = max(f.Rates[what].Peak, c[what])
			}
			if s <= last && s+Minute > last {
				f.Rates[what].Last[Minute-1-int(last-s)] = c[what]
			}
		}
	}
	for p, c := range trees {
		dominated := false
		for child, cc := range trees {
			above, _ := w.ancestors(child)
			above = slices.DeleteFunc(above, func(a *quark.Process) bool { return a.Exited })
			dominated = dominated || !child.Exited && len(above) > 0 && above[0] == p && cc.all()*10 >= c.all()*9
		}
		if !p.Exited && c.all() > 0 && !dominated {
			t := Tree{Counts: *c, Leader: p}
			above, _ := w.ancestors(p)
			for _, a := range above[:max(1, len(above))-1] {
				t.Ancestors = append(t.Ancestors, a.Comm)
			}
			f.Trees = append(f.Trees, t)
		}
	}
	slices.SortFunc(f.Trees, func(a, b Tree) int {
		return cmp.Or(cmp.Compare(b.all(), a.all()), cmp.Compare(a.Leader.PID, b.Leader.PID))
	})
	f.Trees = f.Trees[:min(len(f.Trees), maxRows)]
	for _, x := range failed {
		f.Failures = append(f.Failures, *x)
	}
	return f
}

// text returns a frame for comparison, with sorted failures.
func text(f *Frame) (lines []string) {
	lines = append(lines, fmt.Sprint("seconds ", f.Seconds))
	for _, r := range f.Rates {
		lines = append(lines, fmt.Sprint("rate ", r))
	}
	for _, t := range f.Trees {
		lines = append(lines, fmt.Sprint("tree ", t.Leader.PID, t.Counts, t.Ancestors))
	}
	failures := slices.Clone(f.Failures)
	slices.SortFunc(failures, func(a, b Failure) int { return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.Last, b.Last)) })
	for _, x := range failures {
		lines = append(lines, fmt.Sprint("failure ", x.Count, x.Over, x.Last))
	}
	return lines
}

// A model shows the same as a naive count of everything.
func TestModelIsRight(t *testing.T) {
	for seed := range 10 {
		const hold = 300 * time.Millisecond
		w := newWorld()
		m := New(begin, hold)
		w.born(nil, "init")
		for i := range 2000 {
			p := w.processes[rand.IntN(len(w.processes))]
			if p.Exited {
				continue
			}
			child := w.born(p, "c"+strconv.Itoa(rand.IntN(5)))
			status := int32(rand.IntN(3)) << 8
			switch rand.IntN(8) {
			case 0: // it lives
				w.does(m, child, 0, engine.KindFork)
			case 1:
				w.does(m, child, 0, engine.KindFork, engine.KindExec)
			case 2:
				w.does(m, p, 0, engine.KindExec)
			case 3:
				if p.PID != 1 {
					w.does(m, p, status, engine.KindExit)
				}
			case 4: // what is not counted
				m.Count(&quark.Event{Process: p, Events: quark.EventIDChange, Parts: []quark.Part{{Kind: engine.KindIDChange}}}, w.ancestors)
				m.Count(&quark.Event{Process: p, Events: quark.EventExit, Thread: true, Parts: []quark.Part{{Kind: engine.KindExit}}}, w.ancestors)
				m.Count(&quark.Event{Events: quark.EventGap}, w.ancestors)
			default:
				w.does(m, child, status, engine.KindFork, engine.KindExec, engine.KindExit)
			}
			if i%97 == 0 {
				w.now += uint64(rand.N(3 * time.Second))
				if diff := gocmp.Diff(text(w.frame(hold)), text(m.Frame(w.now, w.find, w.ancestors))); diff != "" {
					t.Fatalf("try %d, after %d events: %s", seed, i, diff)
				}
			}
		}
	}
}

// A failed exec counts as a failure with its error and path, not as an end.
func TestFailedExecs(t *testing.T) {
	m := New(begin, time.Second)
	p := &quark.Process{PID: 7, Comm: "sh"}
	p.Known = quark.SetOf(quark.FieldComm)
	for _, x := range []struct {
		errno uint16
		path  string
	}{{2, "/bin/a"}, {2, "/bin/a"}, {13, "/bin/a"}, {2, strings.Repeat("x", 2*maxArgs)}} {
		m.Count(&quark.Event{Process: p, Events: quark.EventExecFailed, Parts: []quark.Part{{Kind: quark.KindExecFailed, Time: begin}},
			Failed: quark.FailedExec{Errno: x.errno, Path: x.path, PathKnown: true}}, nil)
	}
	f := m.Frame(begin+uint64(5*time.Second), nil, nil)
	screen := drawn(t, view().Lines(f, new(State), 120, 30), 120)
	if len(f.Failures) != 3 || f.Failures[0].Count+f.Failures[1].Count+f.Failures[2].Count != 4 || m.total[Failed] != 0 {
		t.Errorf("%+v", f.Failures)
	}
	for _, want := range []string{`2\s+\w+  ENOENT +7 .* /bin/a\n`, `1\s+\w+  EACCES +7 .* /bin/a\n`} {
		if !regexp.MustCompile(want).MatchString(screen) {
			t.Errorf("%s is not in\n%s", want, screen)
		}
	}
	for _, x := range f.Failures {
		if len(x.failed.Path) > maxArgs || (len(x.failed.Path) == maxArgs) != x.failed.PathTruncated {
			t.Errorf("got %d bytes of a path, want fewer", len(x.failed.Path))
		}
	}
}

// A command that fails often is found among many that fail once, and memory does not grow.
func TestStormOfFailures(t *testing.T) {
	f := make(failures)
	truth := make(map[string]uint64)
	p := &quark.Process{}
	p.Known, p.Task.Exit.WaitStatus = quark.SetOf(quark.FieldComm, quark.FieldExit), 256
	p.Image.Args = bytes.Repeat([]byte("x"), 1<<20)
	const all = 200_000
	for i := range uint64(all) {
		p.Comm = "one-" + strconv.FormatUint(i, 36)
		if i%300 == 7 {
			p.Comm = "often"
		}
		truth[p.Comm]++
		f.add(&quark.Event{Process: p, Events: quark.EventExit}, begin+i*uint64(time.Millisecond))
	}
	if len(f) != maxFailures {
		t.Fatalf("%d are kept", len(f))
	}
	found := false
	for key, x := range f {
		if len(x.Process.Image.Args) != maxArgs || !x.Process.Truncated.Has(quark.FieldArgs) {
			t.Errorf("got %d bytes of arguments, want fewer", len(x.Process.Image.Args))
		}
		if n := truth[key.comm]; x.command != key || x.Process.Comm != key.comm || n > x.Count || n < x.Count-x.Over {
			t.Errorf("%s: got %d failures, want %d to %d", key.comm, n, x.Count-x.Over, x.Count)
		}
		found = found || key.comm == "often"
	}
	if !found {
		t.Errorf("a command with %d of %d failures is missing", truth["often"], all)
	}
}

// The number of trees is limited. Trees whose processes have ended make room.
func TestStormOfTrees(t *testing.T) {
	w := newWorld()
	m := New(begin, time.Second)
	first := w.born(nil, "init")
	var leaders []*quark.Process
	byID := make(map[quark.Identity]*quark.Process)
	for range 2 * maxTrees {
		leaders = append(leaders, w.born(first, "sh"))
		id, _ := leaders[len(leaders)-1].Identity()
		byID[id] = leaders[len(leaders)-1]
	}
	find := func(id quark.Identity) *quark.Process { return byID[id] }
	for _, l := range leaders {
		ev := &quark.Event{Process: w.born(l, "ls"), Events: quark.EventFork, Parts: []quark.Part{{Kind: engine.KindFork, Time: begin + 2*second}}}
		m.Count(ev, w.ancestors)
	}
	w.now = begin + 5*second
	f := m.Frame(w.now, find, w.ancestors)
	if len(m.trees) > maxTrees || !f.Full || len(f.Trees) != maxRows {
		t.Errorf("got %d trees, full %v, %d in the frame", len(m.trees), f.Full, len(f.Trees))
	}
	for _, l := range leaders {
		l.Exited = true
	}
	if f = m.Frame(w.now, find, w.ancestors); len(m.trees) != 0 || f.Full || len(f.Trees) != 0 {
		t.Errorf("got %d trees after their end, want 0", len(m.trees))
	}
}

func TestClear(t *testing.T) {
	w := newWorld()
	m := New(begin, time.Second)
	p := w.born(w.born(nil, "init"), "false")
	w.now += 3 * second
	w.does(m, p, 256, engine.KindFork, engine.KindExit)
	w.now += 3 * second
	m.Clear()
	f := m.Frame(w.now, w.find, w.ancestors)
	if f.Rates[Failed].Total != 0 || len(f.Failures) != 0 || f.Rates[Failed].Peak != 1 {
		t.Errorf("%+v %v", f.Rates[Failed], f.Failures)
	}
}
