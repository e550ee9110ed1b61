package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// test is a running test with its queues. A failure of test, not of a cell or view, concerns all
// backends.
type test struct {
	*testing.T
	*settings
	row   row
	cells []*cell // one for each backend
	views []*view
	begun *scenario.Running // started before the queues were opened
	wait  atomic.Value      // string: the condition that it waits for
}

// cell is a running test on one backend. Its failures concern only this backend.
type cell struct {
	*test
	backend string
	failed  bool
	reason  string // reason of the failure or skip
	ended   bool   // the test has ended on this backend
}

// run runs all tests, each on all backends together.
func (s *settings) run(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	defer shared.close(t)
	for _, r := range tests {
		t.Run(r.name, func(t *testing.T) {
			on := s.on
			if r.noBackend {
				on = nil
			}
			for _, c := range s.runOn(t, r, on) {
				t.Run(c.backend, c.report)
			}
		})
	}
}

// runOn runs a test on backends.
func (s *settings) runOn(t *testing.T, r row, backends []string) []*cell {
	if why := unfitReason(); why != "" {
		t.Skip(why)
	}
	x := &test{T: t, settings: s, row: r}
	for _, b := range backends {
		x.cells = append(x.cells, &cell{test: x, backend: b})
	}
	x.Waiting("an unnamed condition")
	watchdog := time.AfterFunc(s.deadline, func() { panic(fmt.Sprintf(hangs, s.deadline, x.wait.Load())) })
	t.Cleanup(func() { watchdog.Stop() })
	whole := x.guard(func() {
		if r.begin != nil {
			r.begin(x)
		}
		if r.shared != "" {
			shared.open(x, r.shared)
		}
		watchResidue(t)
		if s.trace {
			watchTrace(t)
		}
		for _, c := range x.cells {
			if why := unsuited[c.backend][r.name]; why != "" {
				c.try(func() { c.Skipf("%s", why) })
			}
		}
		if len(x.cells) == 0 || len(x.backends()) > 0 {
			r.run(x)
		}
	})
	for _, c := range x.cells {
		if !whole && !c.ended && c.reason == "" {
			c.setResult(true, "the test ended early, because of another backend")
		}
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

// stop is the panic value that ends a test on one backend.
type stop struct{}

// guard calls f. It reports whether f returned without a panic with stop.
func (t *test) guard(f func()) (whole bool) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			panic(r)
		}
	}()
	f()
	return true
}

// try calls f unless the test has ended on this backend. f may end the test on this backend only.
// try reports whether the test continues on this backend.
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
	c.setResult(true, fmt.Sprintf(format, args...))
}

// Fatalf calls Errorf and ends the test on this backend.
func (c *cell) Fatalf(format string, args ...any) {
	c.T.Helper()
	c.Errorf(format, args...)
	panic(stop{})
}

// Skipf ends the test on this backend because it does not apply.
func (c *cell) Skipf(format string, args ...any) {
	c.setResult(false, fmt.Sprintf(format, args...))
	panic(stop{})
}

// setResult stores a failure or skip, unless there is an earlier one. A failure replaces a skip.
func (c *cell) setResult(failed bool, reason string) {
	if c.reason == "" || failed && !c.failed {
		c.failed, c.reason = failed, reason
	}
}

// report gives the backend's subtest t the result of the test on this backend.
func (c *cell) report(t *testing.T) {
	switch {
	case c.failed:
		t.Error(c.reason)
	case c.reason != "":
		t.Skip(c.reason)
	}
}

// Waiting sets the condition that a report of a hang names.
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

// eachQueue calls f for each queue of a backend on which the test has not ended. f may end the test
// on that backend only. The test ends when it has ended on all backends.
func (t *test) eachQueue(f func(*view)) {
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

// pump reads the events that the queues can deliver now.
func (t *test) pump() { t.eachQueue((*view).pump) }

// await reads events until cond holds.
func (t *test) await(what string, cond func() bool) {
	t.Waiting(what)
	t.poll(t.Fatalf, time.Sleep, what, func() bool {
		t.pump()
		return cond()
	})
}

// poll calls cond until it returns true, and sleeps with nap between the calls. It fails the test
// after a third of the test's deadline.
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
