package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// test is a running test with the queues that it uses. Its own failures concern all backends.
type test struct {
	*testing.T
	*settings
	row   row
	cells []*cell // one for each of its backends
	views []*view
	begun *scenario.Running // before the queues were opened
	wait  atomic.Value      // string: what it waits for
}

// cell is a running test on one of its backends. Its failures concern that backend alone.
type cell struct {
	*test
	backend string
	failed  bool
	reason  string // of the failure, or of a skip
	ended   bool   // the test has ended on this backend
}

// run runs all tests, each on all backends together or as a subtest for each of them.
func (s *settings) run(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	defer shared.close(t)
	for _, r := range tests {
		t.Run(r.name, func(t *testing.T) {
			switch {
			case r.noBackend:
				s.runOn(t, r, nil)
			case r.apart:
				for _, b := range s.on {
					t.Run(b, func(t *testing.T) { s.runOn(t, r, []string{b}) })
				}
			default:
				for _, c := range s.runOn(t, r, s.on) {
					t.Run(c.backend, c.report)
				}
			}
		})
	}
}

// runOn runs a test on backends.
func (s *settings) runOn(t *testing.T, r row, backends []string) []*cell {
	if why := unfit(); why != "" {
		t.Skip(why)
	}
	x := &test{T: t, settings: s, row: r}
	for _, b := range backends {
		x.cells = append(x.cells, &cell{test: x, backend: b})
	}
	x.Waiting("nothing that it has named")
	watchdog := time.AfterFunc(s.deadline, func() { panic(fmt.Sprintf(hangs, s.deadline, x.wait.Load())) })
	t.Cleanup(func() { watchdog.Stop() })
	whole := x.guard(func() {
		if r.shared != "" {
			shared.open(x, r.shared)
		}
		if !s.alone { // the test may lose /proc
			watchResidue(t)
			if s.trace {
				watchTrace(t)
			}
		}
		for _, c := range x.cells {
			if why := unsuited[c.backend][r.name]; why != "" {
				c.try(func() { c.Skipf("%s", why) })
			}
		}
		switch {
		case len(x.cells) > 0 && len(x.backends()) == 0:
		case r.alone && !s.alone:
			x.runAlone()
		default:
			r.run(x)
		}
	})
	for _, c := range x.cells {
		if !whole && !c.ended && c.reason == "" {
			c.worsen(true, "the test ended early, because of another backend")
		}
	}
	if r.apart {
		x.cells[0].report(t)
	}
	return x.cells
}

// backends returns the backends on which the test has not ended.
func (t *test) backends() (list []string) {
	for _, c := range t.cells {
		if !c.ended {
			list = append(list, c.backend)
		}
	}
	return list
}

// runAlone runs the test in a process of its own.
func (t *test) runAlone() {
	s := *t.settings
	s.on, s.alone = t.backends(), true
	cmd := exec.Command("/proc/self/exe", append([]string{"-test.v", "-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"}, s.args()...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // the process cannot remove its files
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the test in a process of its own: %v", err)
	}
}

// stop is what a test panics with to end on one backend.
type stop struct{}

// guard calls f, and reports whether f came to its end.
func (t *test) guard(f func()) (whole bool) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			panic(r)
		}
	}()
	f()
	return true
}

// try calls f unless the test has ended on this backend. f may end the test on this backend while
// the others go on. try reports whether this one goes on.
func (c *cell) try(f func()) (goesOn bool) {
	c.ended = c.ended || !c.guard(f)
	return !c.ended
}

// Logf logs a line that is about the backend.
func (c *cell) Logf(format string, args ...any) {
	c.T.Helper()
	c.T.Logf("%s: %s", c.backend, fmt.Sprintf(format, args...))
}

// Errorf logs a line, and fails the test on this backend.
func (c *cell) Errorf(format string, args ...any) {
	c.T.Helper()
	c.Logf(format, args...)
	c.worsen(true, fmt.Sprintf(format, args...))
}

// Fatalf is Errorf and ends the test on this backend.
func (c *cell) Fatalf(format string, args ...any) {
	c.T.Helper()
	c.Errorf(format, args...)
	panic(stop{})
}

// Skipf ends the test on this backend because it does not apply.
func (c *cell) Skipf(format string, args ...any) {
	c.worsen(false, fmt.Sprintf(format, args...))
	panic(stop{})
}

// worsen keeps the first failure, or the first skip if there is none.
func (c *cell) worsen(failed bool, reason string) {
	if c.reason == "" || failed && !c.failed {
		c.failed, c.reason = failed, reason
	}
}

// report gives the state of the backend to its subtest.
func (c *cell) report(t *testing.T) {
	switch {
	case c.failed:
		t.Error(c.reason)
	case c.reason != "":
		t.Skip(c.reason)
	}
}

// Waiting names what the test waits for from now on, for the report of a test that hangs.
func (t *test) Waiting(what string) { t.wait.Store(what) }

const hangs = "hang: deadline of %v passed while waiting for %s"

// TempDir returns an empty directory that anyone may enter. It is removed after the test.
func (t *test) TempDir() string {
	dir := t.T.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	return dir
}

// each calls f for each queue of a backend that still takes part. If f ends the test it does
// so for that backend alone; the test ends when it has ended for all.
func (t *test) each(f func(*view)) {
	if len(t.views) == 0 {
		t.Fatalf("no queue watches this test")
	}
	left := false
	for _, v := range t.views {
		if v.try(func() { f(v) }) {
			left = true
		}
	}
	if !left {
		panic(stop{})
	}
}

// pump reads what the queues deliver now.
func (t *test) pump() { t.each((*view).pump) }

// await reads events until cond holds.
func (t *test) await(what string, cond func() bool) {
	t.Waiting(what)
	t.poll(t.Fatalf, time.Sleep, what, func() bool {
		t.pump()
		return cond()
	})
}

// poll calls look until it returns true, with naps in between. It gives up after a third
// of the time that the whole test may take.
func (t *test) poll(fatalf func(string, ...any), nap func(time.Duration), what string, look func() bool) {
	if t.verbose >= 2 {
		t.Logf("waiting for %s", what)
	}
	patience := t.deadline / 3
	longest := 2 * time.Millisecond
	for end := time.Now().Add(patience); !look(); {
		if time.Now().After(end) {
			fatalf(hangs, patience, what)
		}
		nap(longest)
		longest = min(longest+longest/4, 30*time.Millisecond)
	}
}

// cell returns the test on a backend, or nil if it has ended there.
func (t *test) cell(backend string) *cell {
	for _, c := range t.cells {
		if c.backend == backend && !c.ended {
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
