package engine

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// What a life of a pid costs does not depend on how many there were within the grace time.
func TestManyLivesOfOnePID(t *testing.T) {
	const lives = 50000
	for _, c := range []struct {
		name   string
		starts bool
		kinds  []Kind
	}{
		{"all events", true, []Kind{KindFork, KindExec, KindExit}},
		{"no EXIT", true, []Kind{KindFork, KindExec}},
		{"no FORK", true, []Kind{KindExec, KindExit}},
		{"no start times", false, []Kind{KindFork, KindExec, KindExit}},
		{"no FORK and no start times", false, []Kind{KindExec, KindExit}},
	} {
		tab, now := table{clock: new(Clock), reports: reports{births: true, ends: true}}, uint64(time.Second)
		for n, began := 0, time.Now(); n < lives; n++ {
			r := RawEvent{PID: 7}
			if c.starts {
				r.Task = Task{Known: FieldStart.Set(), Start: now, StartUnit: 1}
			}
			for _, r.Kind = range c.kinds {
				r.Time = now
				tab.apply(&r, now)
				now += uint64(20 * time.Microsecond)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Fatalf("%s: %d lives took %v", c.name, n, d)
			}
		}
		if tab.count != lives {
			t.Errorf("%s: %d processes of %d", c.name, tab.count, lives)
		}
		tab.collect(now, now)
		if live := tab.byPID.get(7); tab.count > 1 || tab.count == 1 && (live.Exited || live.older != nil) {
			t.Errorf("%s: %d processes after the grace time", c.name, tab.count)
		}
	}
}

// A start time that is rounded down to a tick does not put a process before the one whose end was
// reported, without a start time, in that tick.
func TestPIDReusedWithinTick(t *testing.T) {
	tab, tick := table{clock: new(Clock)}, uint64(ProcStartUnit)
	tab.apply(&RawEvent{PID: 7, Kind: KindExit, Time: 100*tick + 5}, 0)
	next := RawEvent{PID: 7, Kind: KindExec, Time: 100*tick + 9, Task: Task{Known: FieldStart.Set(), Start: 100 * tick, StartUnit: tick}}
	if p := tab.apply(&next, 0); tab.lookup(7) != p || p.Exited {
		t.Error("the ended process has the pid")
	}
}

// Of the lives of one pid, with events lost and out of order, an event is of the same one as if all
// were looked through, where that one is right.
func TestFindAmongLives(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tab, now := table{clock: new(Clock), reports: reports{births: true, ends: true}, grace: uint64(100 * time.Millisecond)}, uint64(time.Second)
		var events []*RawEvent
		life := make(map[*RawEvent]int)
		for n := range 100 {
			unit := []uint64{1, ProcStartUnit}[rnd.IntN(2)]
			for start, kinds := now, []Kind{KindFork, KindExec, KindSetProcTitle, KindExit}; len(kinds) > 0; kinds = kinds[1:] {
				now += 1 + rnd.Uint64N(uint64(20*time.Millisecond))
				if rnd.IntN(4) == 0 {
					continue // lost
				}
				r := &RawEvent{PID: 7, Kind: kinds[0], Time: now}
				if rnd.IntN(2) == 0 {
					r.Task = Task{Known: FieldStart.Set(), Start: start / unit * unit, StartUnit: unit}
				}
				events, life[r] = append(events, r), n
				if i := len(events) - 1; i > 2 && rnd.IntN(4) == 0 { // late
					j := i - rnd.IntN(3)
					events[i], events[j] = events[j], events[i]
				}
			}
			now += 1 + rnd.Uint64N(uint64(time.Millisecond))
		}
		of := make(map[*process]int)
		for _, r := range events {
			tab.collect(r.Time, r.Time)
			got, walked := tab.find(r), tab.walk(r)
			if walked != nil && of[walked] == life[r] && got != walked {
				t.Fatalf("seed %d: %s of life %d: found %v, life %d", seed, r.Kind, life[r], got != nil, of[got])
			} else if got != nil && of[got] == life[r] {
				found++
			}
			before := tab.count
			if p := tab.apply(r, r.Time); tab.count > before || p != got {
				of[p] = life[r]
			}
			tab.checkChain(t)
		}
	}
	if found < 10000 {
		t.Errorf("%d events of a life that is known", found)
	}
}

// walk is find of a table without gaps, which looks at all lives of the pid.
func (t *table) walk(r *RawEvent) *process {
	for p := t.byPID.get(r.PID); p != nil; p = p.older {
		if p.mayBe(r) {
			return t.orOlder(p, r)
		}
	}
	return nil
}

// checkChain fails t where the processes of pid 7 are not chained as they should be.
func (t *table) checkChain(tb testing.TB) {
	tb.Helper()
	var chain []*process
	for p := t.byPID.get(7); p != nil; p = p.older {
		if n := len(chain); n == 0 && p.younger != nil || n > 0 && (p.younger != chain[n-1] || p.born > chain[n-1].born) {
			tb.Fatal("the chain is broken")
		}
		chain = append(chain, p)
	}
	if len(chain) != t.count {
		tb.Fatalf("%d processes of %d in the chain", len(chain), t.count)
	}
	for i, p := range chain {
		if !p.stragglers && slices.ContainsFunc(chain[i+1:], func(o *process) bool { return !o.Exited }) {
			tb.Fatal("an older process lives")
		}
	}
}

// A view is used again for another process: fill leaves nothing of the one before.
func TestFillWritesAll(t *testing.T) {
	var tab table
	p := &process{context: &noContext, image: &noImage, doubts: &noDoubts}
	var fresh, used Process
	fillNonzero(reflect.ValueOf(&used).Elem())
	tab.fill(&fresh, p)
	tab.fill(&used, p)
	if !reflect.DeepEqual(fresh, used) {
		t.Errorf("a view that was used: %+v\na new one: %+v", used, fresh)
	}
}

// fillNonzero makes no member of v zero.
func fillNonzero(v reflect.Value) {
	// By address, also members that are not exported can be set.
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillNonzero(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	}
}
