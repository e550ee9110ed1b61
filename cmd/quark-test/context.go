package main

import (
	"os"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/harness/testrun"
)

// test is a running test with the queues that it uses.
type test struct {
	*testrun.T
	views []*view
}

// each calls f for each queue of a backend that still takes part. If f ends the test it does
// so for that backend alone; the test ends when it has ended for all.
func (t *test) each(f func(*view)) {
	if len(t.views) == 0 {
		t.Fatalf("no queue watches this test")
	}
	left := false
	for _, v := range t.views {
		if v.Try(func() { f(v) }) {
			left = true
		}
	}
	if !left {
		t.Stop()
	}
}

// pump reads what the queues deliver now.
func (t *test) pump() { t.each((*view).pump) }

// await reads events until cond holds.
func (t *test) await(what string, cond func() bool) {
	t.Waiting(what)
	t.poll(t.Hang, time.Sleep, what, func() bool {
		t.pump()
		return cond()
	})
}

// poll calls look until it returns true, with naps in between. It gives up after a third
// of the time that the whole test may take.
func (t *test) poll(hang func(time.Duration, string), nap func(time.Duration), what string, look func() bool) {
	if t.Verbose >= 2 {
		t.Logf("waiting for %s", what)
	}
	patience := t.Limit / 3
	longest := 2 * time.Millisecond
	for end := time.Now().Add(patience); !look(); {
		if now := time.Now(); now.After(end) || now.After(t.Deadline) {
			hang(patience, what)
		}
		nap(longest)
		longest = min(longest+longest/4, 30*time.Millisecond)
	}
}

// cell returns the test on a backend, or nil if it has ended there.
func (t *test) cell(backend string) *testrun.Cell {
	for _, c := range t.Cells {
		if c.Backend == backend && !c.Over() {
			return c
		}
	}
	return nil
}

// awaitEvent waits until each queue has delivered an event of p that satisfies want.
func (t *test) awaitEvent(p *proc, what string, want func(*event) bool) {
	t.each(func(v *view) { v.awaitEvent(p, what, want) })
}

// awaitDelivery reads events until everything that happened before has been delivered.
func (t *test) awaitDelivery() {
	p := t.spawn(script().Exit(0), barefork{Share: true})
	t.reap(p)
	t.awaitEvent(p, "EXIT", has(engine.EventExit))
}

// wantLives checks that each process, which has ended, had one FORK, execs times an EXEC
// and one EXIT with the status that wait4 returned, in that order.
func (t *test) wantLives(execs int, all ...*proc) {
	for _, p := range all {
		t.awaitEvent(p, "EXIT", has(engine.EventExit))
	}
	t.awaitDelivery()
	t.each(func(v *view) {
		for _, p := range all {
			v.checkLife(p, execs)
		}
	})
}

// self returns the path of this program.
func (t *test) self() string {
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find this program: %v", err)
	}
	return path
}
