package tracepoint

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/stock/stocktest"
)

// TestQueue compares the queue with a slice that is sorted.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var q queue
	var want []record
	for n := range uint32(10000) {
		if rnd.IntN(5) < 3 || n < 100 {
			r := record{what: newTask, time: uint64(n) + rnd.Uint64N(50), task: n, text: []byte("a name")}
			q.add(&r)
			want = append(want, r)
			slices.SortStableFunc(want, func(a, b record) int { return cmp.Compare(a.time, b.time) })
			continue
		}
		if q.len() != len(want) || len(want) == 0 {
			t.Fatalf("%d entries, want %d", q.len(), len(want))
		}
		if e := q.oldest(); e.task != want[0].task || q.take() != e || string(e.text) != "a name" {
			t.Fatalf("task %d of %d, want %d of %d", e.task, e.time, want[0].task, want[0].time)
		}
		want = want[1:]
	}
	if len(q.entries) > 8*len(want)+200 {
		t.Errorf("the queue of %d has grown to %d", len(want), len(q.entries))
	}
}

// TestFreeEntryRefersToNothing: the event that a record became is not kept by what waits to be used
// again, nor by the queue's room.
func TestFreeEntryRefersToNothing(t *testing.T) {
	var q queue
	e := q.add(&record{what: newTask})
	e.ev, e.next = new(engine.RawEvent), new(entry)
	q.release(q.take())
	if free := q.free.Take(); free != e || free.ev != nil || free.next != nil || q.entries[0] != nil {
		t.Errorf("%p of %p refers to %p and %p; in the room is %p", free, e, free.ev, free.next, q.entries[0])
	}
}

// TestBurstIsGivenBack: what a burst of processes took is let go, with the events that they became.
func TestBurstIsGivenBack(t *testing.T) {
	s := newSource(source.Options{}, 1)
	now := uint64(1)
	stocktest.Burst(t, s, 4096, func(n uint32) {
		to := new(conform.Events)
		for pid := range n {
			now++
			s.add(&record{what: newTask, time: now, pid: 1, task: pid + 10}, to)
			s.add(&record{what: renamed, byExec: true, time: now, pid: pid + 10, tid: pid + 10, task: pid + 10}, to)
			s.add(&record{what: executed, time: now, pid: pid + 10, task: pid + 10}, to)
		}
		s.toRead = nil // there are no such processes
		s.settle(to, true)
		s.trim()
	})
	if n := len(s.born.In) + len(s.execs.In) + len(s.naming.In); n != 0 {
		t.Errorf("%d processes are kept", n)
	}
}

func TestBirths(t *testing.T) {
	b := births{}.with(5)
	for _, c := range []struct {
		b         births
		after, by uint64
		want      bool
	}{
		{births{}, 0, 100, false},
		{b, 5, 100, false},       // its own
		{b, 4, 100, true},        //
		{b, 4, 4, false},         // after the reading
		{b.with(9), 5, 8, false}, // after the reading
		{b.with(9), 5, 9, true},  //
		{b.with(9), 4, 8, true},  // there may have been more
		{b.with(9).with(7), 5, 9, true},
		{births{}.with(9).with(5), 5, 8, false},
	} {
		if got := c.b.within(c.after, c.by); got != c.want {
			t.Errorf("%+v after %d by %d: %v", c.b, c.after, c.by, got)
		}
	}
}
