package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/harness/testrun"
)

// test is a running test: what it does, and the queues that watch.
type test struct {
	*testrun.T
	views []*view
}

// each calls f for each queue that still takes part. What f finds wrong, or that the
// test does not apply, is about the backend of that queue alone; the test is over when
// it is over for all.
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

// pump takes what the queues have now.
func (t *test) pump() { t.each((*view).pump) }

// await takes events until cond holds.
func (t *test) await(what string, cond func() bool) {
	t.Waiting(what)
	wait(t.T, t, what, func() bool {
		t.pump()
		return cond()
	})
}

// nap is that of a queue that still takes part.
func (t *test) nap(longest time.Duration) { t.awake().nap(longest) }

// awake is a queue that still takes part.
func (t *test) awake() *view {
	for _, v := range t.views {
		if !v.Over() {
			return v
		}
	}
	return nil // as pump has ended the test then
}

// waiter is a test, or a view of it, that waits.
type waiter interface {
	Logf(format string, args ...any)
	Hang(after time.Duration, what string)
	nap(longest time.Duration)
}

// wait looks until what is waited for is there, and naps in between. It gives up before
// the whole test has to: something is wrong long before.
func wait(t *testrun.T, w waiter, what string, look func() bool) {
	if t.Verbose >= 2 {
		w.Logf("waiting for %s", what)
	}
	patience := t.Limit / 3
	nap := 2 * time.Millisecond
	for end := time.Now().Add(patience); !look(); {
		if now := time.Now(); now.After(end) || now.After(t.Deadline) {
			w.Hang(patience, what)
		}
		w.nap(nap)
		nap = min(nap+nap/4, 30*time.Millisecond)
	}
}

// awaitEvent waits until each queue has delivered an event of p that satisfies want.
func (t *test) awaitEvent(p *proc, what string, want func(*event) bool) {
	t.each(func(v *view) { v.awaitEvent(p, what, want) })
}

// settle takes events until all that happened before have been delivered.
func (t *test) settle() {
	p := t.spawn(script().Exit(0), barefork{Share: true})
	t.reap(p)
	t.awaitEvent(p, "EXIT", has(engine.EventExit))
}

// wantLives checks that each process, which has ended, had one FORK, so many
// EXECs and one EXIT with the status that wait4 returned, in that order.
func (t *test) wantLives(execs int, all ...*proc) {
	for _, p := range all {
		t.awaitEvent(p, "EXIT", has(engine.EventExit))
	}
	t.settle()
	t.each(func(v *view) {
		for _, p := range all {
			v.checkLife(p, execs)
		}
	})
}

// checkExecs compares the EXEC of each program with the truth. Programs that run side by
// side are held by the queues side by side.
func (t *test) checkExecs(all ...*program) {
	t.each(func(v *view) {
		for _, p := range all {
			exec := v.awaitEvent(p.proc, "EXEC of "+p.name, has(engine.EventExec))
			v.check(p.name, exec.Process, p.truth, v.fields(engine.EventExec))
		}
	})
}

// wantExecs is checkExecs, and then has the programs end.
func (t *test) wantExecs(all ...*program) {
	t.checkExecs(all...)
	t.finishAll(all...)
}

// finishAll lets programs end and checks their lives.
func (t *test) finishAll(all ...*program) {
	var procs []*proc
	for _, p := range all {
		p.finish(t)
		procs = append(procs, p.proc)
	}
	t.wantLives(1, procs...)
}

// inGuest tells whether this runs in a guest that is there for the tests.
func inGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// now is CLOCK_MONOTONIC, the clock of the events.
func now() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return uint64(ts.Nano())
}

// self is the path of this program.
func (t *test) self() string {
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find this program: %v", err)
	}
	return path
}
