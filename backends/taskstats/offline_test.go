package taskstats

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/internal/stock"
	"github.com/quark-linux/quark/internal/stock/stocktest"
)

func TestSequence(t *testing.T) {
	for _, c := range []struct {
		name             string
		numbers          []uint32
		dropped          uint64
		missing, foreign uint64
	}{
		{name: "none", numbers: nil},
		{name: "in order", numbers: []uint32{7, 8, 9}},
		{name: "over the end", numbers: []uint32{1<<32 - 2, 1<<32 - 1, 0, 1}},
		{name: "a gap", numbers: []uint32{7, 8, 11, 12}, missing: 2},
		{name: "a gap at the last record", numbers: []uint32{7, 8, 11}},
		{name: "a number of another CPU", numbers: []uint32{7, 8, 900, 9, 10}, foreign: 1},
		{name: "one of before", numbers: []uint32{7, 8, 3, 9, 10}, foreign: 1},
		{name: "two of others", numbers: []uint32{7, 8, 900, 20, 9}, foreign: 2},
		{name: "a gap after each record", numbers: []uint32{7, 10, 13, 16, 17}, dropped: 6, missing: 6},
		{name: "a number of another CPU, and as many drops", numbers: []uint32{7, 900, 10, 11}, dropped: 2, missing: 2, foreign: 1},
	} {
		var s sequence
		for _, n := range c.numbers {
			s.saw(n, c.dropped)
		}
		if s.missing != c.missing || s.foreign != c.foreign {
			t.Errorf("%s: %d missing, %d foreign; want %d, %d", c.name, s.missing, s.foreign, c.missing, c.foreign)
		}
	}
}

func TestPossibleCPUs(t *testing.T) {
	for list, want := range map[string][]uint32{"0\n": {0}, "0-3": {0, 1, 2, 3}, "0-1,4,6-7\n": {0, 1, 4, 6, 7}, "": nil, "3-1": nil, "x": nil, "0-": nil, "0-99999": nil} {
		got, err := possibleCPUs(list)
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}

// process is a model of a process in /proc.
type process struct {
	st    procfs.Status
	tasks []uint32
}

func (p *process) Tasks(uint32) []uint32                                   { return p.tasks }
func (p *process) Status(uint32) (procfs.Status, uint64, error)            { return p.st, 0, nil }
func (p *process) ThreadStatus(_, _ uint32) (procfs.Status, uint64, error) { return p.st, 0, nil }

// The status is told if it is certain, and never a wrong one: the threads of a process end in
// random ways, some by themselves, and then all together, and records are lost.
func TestStatusIsTrue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	known, after := 0, 0
	for range 20000 {
		p := &process{st: procfs.Status{State: 'S'}, tasks: []uint32{10, 11, 12}}
		g := groups{view: p, last6: true, blind: 1}
		now, born := uint64(10), rnd.Uint64N(3)
		// Some end by themselves, and the process is seen to sleep afterwards, or not.
		alone := rnd.IntN(3)
		lost := false
		for i := range alone {
			if r := (&taskrecord.Record{PID: uint32(20 + i), TGID: 10, Status: int32(rnd.IntN(3)) << 8}); rnd.IntN(10) > 0 {
				g.thread(r)
			} else {
				lost = true
			}
		}
		if lost {
			now++
			g.lose(now)
		}
		looked := rnd.IntN(2) == 0
		if looked {
			now += lookLast
			if g.look(now) {
				g.confirm()
			}
		}
		// The others are ended by exit_group, in any order, or those that have begun to end
		// before, with another status, come last.
		status, several := int32(rnd.IntN(3))<<8, 1+rnd.IntN(3)
		early := rnd.IntN(4) == 0 && !looked
		var records []taskrecord.Record
		for i := range several {
			r := taskrecord.Record{PID: uint32(10 + i), TGID: 10, Status: status, Last: i == several-1, Several: alone > 0 || several > 1}
			if early && r.Last && several > 1 {
				r.Status = 0x4500
			}
			records = append(records, r)
		}
		// Their records come in any order, and the looks are at any time.
		rnd.Shuffle(several, func(i, j int) { records[i], records[j] = records[j], records[i] })
		var got int32
		var ok, told bool
		for i := range records {
			r := &records[i]
			now++
			if r.Last && !r.Several {
				got, ok, told = r.Status, true, true
			} else if r.Last {
				g.last(over{r: *r, at: now, born: born})
			} else {
				g.thread(r)
			}
			p.st, p.tasks = procfs.Status{State: 'R', Ending: true}, nil
			for _, r := range records[i+1:] {
				p.tasks = append(p.tasks, r.PID)
			}
			if !slices.Contains(p.tasks, 10) {
				p.st = procfs.Status{State: 'Z'}
			}
			n := g.lookOvers(now)
			if rnd.IntN(2) == 0 && i < several-1 || n > 0 {
				g.look(now)
				g.settleOvers(n, func(_ *over, status int32, known bool) { got, ok, told = status, known, true })
				g.confirm()
			}
		}
		if !told {
			t.Fatalf("its end is kept back: %v", records)
		}
		if ok && got != status {
			t.Fatalf("status %#x, not %#x: %d ended alone, looked %v, early %v, lost %v", got, status, alone, looked, early, lost)
		}
		if ok {
			known++
			if alone > 0 && looked {
				after++
			}
		}
		if len(g.byPID.In) != 0 {
			t.Fatalf("left are %v", g.byPID.In)
		}
	}
	if known < 5000 || after < 500 {
		t.Errorf("%d known, %d of processes that were seen to run", known, after)
	}
}

// A process that is looked at between its end and the receipt of its last record is another one.
func TestLookAtAnother(t *testing.T) {
	p := &process{st: procfs.Status{State: 'S'}}
	g := groups{view: p, last6: true}
	g.thread(&taskrecord.Record{PID: 11, TGID: 10, Status: 0x100})
	if !g.look(1) {
		t.Fatal("it was not looked at")
	}
	g.last(over{r: taskrecord.Record{PID: 10, TGID: 10, Status: 0x200, Last: true, Several: true}, born: 9})
	g.confirm()
	p.st = procfs.Status{State: 'Z'}
	n := g.lookOvers(2)
	g.settleOvers(n, func(_ *over, status int32, known bool) {
		if known {
			t.Errorf("status %#x of a process that another was taken for", status)
		}
	})
	if n != 1 || len(g.byPID.In) != 0 {
		t.Errorf("%d settled, left are %v", n, g.byPID.In)
	}
}

// The end of a process one of whose threads stays away is told after some time, without a status;
// and what comes still is not taken for the next process of its pid.
func TestThreadStaysAway(t *testing.T) {
	p := &process{st: procfs.Status{State: 'Z'}, tasks: []uint32{10, 11}}
	g := groups{view: p, last6: true}
	end := func(now uint64) (n int, known bool) {
		n = g.lookOvers(now)
		g.settleOvers(n, func(_ *over, _ int32, ok bool) { known = ok })
		return n, known
	}
	last := func(at uint64) {
		g.last(over{r: taskrecord.Record{PID: 12, TGID: 10, Status: 0x200, Last: true, Several: true}, at: at, born: at})
	}
	last(1)
	if n, _ := end(2); n != 0 || g.next() != 2+lookFirst {
		t.Errorf("%d settled while a thread is in /proc; the next look is at %d", n, g.next())
	}
	if n, known := end(1 + overLongest); n != 1 || known {
		t.Errorf("%d settled, known %v", n, known)
	}
	g.thread(&taskrecord.Record{PID: 11, TGID: 10, Status: 0x100})
	p.tasks = []uint32{10}
	for i, want := range []bool{false, true} {
		last(2 * overLongest)
		if n, known := end(2*overLongest + 1); n != 1 || known != want {
			t.Errorf("process %d of the pid: %d settled, known %v", i, n, known)
		}
	}
	// Two of one pid whose records come together.
	last(1)
	last(2)
	if n, known := end(3); n != 2 || known || len(g.byPID.In) != 0 {
		t.Errorf("%d settled, known %v, left are %v", n, known, g.byPID.In)
	}
}

// A pid of which a thread's record does not come is forgotten, unless the thread is still there:
// else each such pid would stay for ever.
func TestThreadNeverComes(t *testing.T) {
	p := &process{st: procfs.Status{State: 'Z'}, tasks: []uint32{10, 11}}
	g := groups{view: p, last6: true}
	g.last(over{r: taskrecord.Record{PID: 12, TGID: 10, Status: 0x200, Last: true, Several: true}, at: 1, born: 1})
	n := g.lookOvers(1 + overLongest)
	g.settleOvers(n, func(*over, int32, bool) {})
	for _, c := range []struct {
		name  string
		after uint64
		tasks []uint32
		want  int
	}{
		{"its record may be on its way", straggle - 1, []uint32{10}, 1},
		{"it is in /proc", 2 * straggle, []uint32{10, 11}, 1},
		{"it is gone", 3 * straggle, []uint32{10}, 0},
	} {
		p.tasks = c.tasks
		if g.trim(1 + overLongest + c.after); len(g.byPID.In) != c.want {
			t.Errorf("%s: known are %v", c.name, g.byPID.In)
		}
	}
}

// TestBurstIsGivenBack: what a burst of processes with threads took is let go.
func TestBurstIsGivenBack(t *testing.T) {
	p := &process{st: procfs.Status{State: 'Z'}}
	g := groups{view: p, last6: true}
	now := uint64(1)
	burst := func(n uint32) {
		for pid := range n {
			g.thread(&taskrecord.Record{PID: pid + 1<<20, TGID: pid + 10})
		}
		for pid := range n {
			g.last(over{r: taskrecord.Record{PID: pid + 10, TGID: pid + 10, Last: true, Several: true}, at: now, born: now})
		}
		g.settleOvers(g.lookOvers(now), func(*over, int32, bool) {})
		g.look(now)
		now += stock.TrimEvery
		g.trim(now)
	}
	stocktest.Burst(t, &g, 512, burst)
}

// Before Linux 5.19 a record that may be of a thread is not taken for the end of a process.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		name  string
		r     taskrecord.Record
		st    procfs.Status
		start uint64
		gone  bool
		want  bool
	}{
		{name: "a process that waits for its parent", st: procfs.Status{State: 'Z', Threads: 1}, want: true},
		{name: "a process that is about to end", st: procfs.Status{State: 'R', Threads: 1, Ending: true}, want: true},
		{name: "a thread", st: procfs.Status{State: 'R', Threads: 2, Ending: true, Thread: true}},
		{name: "a leader that has ended first", r: taskrecord.Record{Status: 0x100}, st: procfs.Status{State: 'Z', Threads: 2}},
		{name: "gone, and perhaps a thread", gone: true},
		{name: "gone, with a status", r: taskrecord.Record{Status: 0x100}, gone: true, want: true},
		{name: "gone, not executed", r: taskrecord.Record{Forked: true}, gone: true, want: true},
		{name: "another process, with a status", r: taskrecord.Record{Status: 9}, st: procfs.Status{State: 'S', Threads: 1}, start: 950, want: true},
		{name: "another process, and perhaps a thread", st: procfs.Status{State: 'S', Threads: 1}, start: 950},
		{name: "a leader whose place a thread has taken", r: taskrecord.Record{Forked: true}, st: procfs.Status{State: 'S', Threads: 1}, start: 880},
	} {
		d := doubt{r: c.r, received: 1000}
		d.r.Age = 100
		d.decide(c.st, c.start, !c.gone)
		if d.end != c.want {
			t.Errorf("%s: %v", c.name, d.end)
		}
	}
}
