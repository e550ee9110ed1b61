package testrun

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// T is a running test. Its methods are for what concerns all its backends; only one
// goroutine may call them.
type T struct {
	scope

	// Test is the test; nil while [Suite.Share] runs.
	Test *Test

	// Cells has one cell for each of its backends.
	Cells []*Cell

	// Verbose is the number of -v options.
	Verbose int

	// Limit is how long the test may take, Deadline when it has to give up waiting. It
	// is killed a little later.
	Limit    time.Duration
	Deadline time.Time

	progress func(string)
	cleanups []func()
	dirs     int
	tmp      string
}

// Cell is a running test on one of its backends.
type Cell struct {
	scope
	*T
	Backend string
	verdict verdict
	over    bool // the test has ended on this backend
}

// newT returns a T for a test on backends.
func newT(backends []string, out io.Writer, verbose int, limit time.Duration) *T {
	t := &T{Verbose: verbose, Limit: limit}
	for _, b := range backends {
		c := &Cell{T: t, Backend: b, verdict: verdict{State: Pass}}
		c.scope = scope{out: out, worsen: c.verdict.worsen}
		if len(backends) > 1 {
			c.prefix = b + ": "
		}
		t.Cells = append(t.Cells, c)
	}
	t.scope = scope{out: out, worsen: func(v verdict) {
		for _, c := range t.Cells {
			if !c.over {
				c.verdict.worsen(v)
			}
		}
	}}
	return t
}

// scope logs and ends a test, on one backend or on all.
type scope struct {
	out    io.Writer
	prefix string // of each line: the backend if the test has several
	worsen func(verdict)
}

// stop is what a test panics with to end early.
type stop struct{}

// Logf writes a line to the test's log, which is shown if it fails or with -v.
func (s scope) Logf(format string, args ...any) {
	fmt.Fprintf(s.out, "  %s%s\n", s.prefix, fmt.Sprintf(format, args...))
}

// Errorf logs a line and makes the test fail.
func (s scope) Errorf(format string, args ...any) {
	s.Logf(format, args...)
	s.worsen(verdict{Fail, fmt.Sprintf(format, args...)})
}

// Fatalf is Errorf and ends the test.
func (s scope) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	s.Stop()
}

// Skipf ends the test because it does not apply.
func (s scope) Skipf(format string, args ...any) {
	s.worsen(verdict{Skip, fmt.Sprintf(format, args...)})
	s.Stop()
}

// Stop ends the test as it is.
func (s scope) Stop() { panic(stop{}) }

// Hang ends the test because an awaited event does not come.
func (s scope) Hang(after time.Duration, what string) { s.Fatalf(hangs, after, what) }

const hangs = "hang: deadline of %v passed while waiting for %s"

// guard calls f, reports a panic as a failure, and returns whether f came to its end.
func (s scope) guard(f func()) (whole bool) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stop:
		default:
			s.Errorf("panic: %v", r)
			s.Logf("%s", debug.Stack())
		}
	}()
	f()
	return true
}

// Waiting names what the test waits for from now on. The report names it if the test
// hangs.
func (t *T) Waiting(what string) {
	if t.progress != nil {
		t.progress(what)
	}
}

// Cleanup registers a function to be called when the test has ended, the last
// one first.
func (t *T) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

// TempDir makes an empty directory that anyone may enter. It is removed after
// the test.
func (t *T) TempDir() string {
	t.dirs++
	dir := fmt.Sprintf("%s/%d", t.tmp, t.dirs)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	return dir
}

// run runs one test in this process.
func (t *T) run(test *Test) verdicts {
	t.Test = test
	return t.judge(func() { test.Run(t) })
}

// judge calls f and the cleanups, and fails the test for descriptors left open.
func (t *T) judge(f func()) (list verdicts) {
	t.Deadline = time.Now().Add(t.Limit)
	before, err := openDescriptors()
	if err != nil {
		return each(len(t.Cells), verdict{Fail, err.Error()})
	}
	defer before.dir.Close()
	whole := t.guard(f)
	for _, c := range t.Cells {
		if !whole && c.verdict.State == Pass {
			c.Errorf("the test ended early, because of another backend")
		}
		c.over = false // later failures concern all backends
	}
	for len(t.cleanups) > 0 {
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.guard(last)
	}
	left, err := before.left()
	if err != nil {
		t.Errorf("look for descriptors left open: %v", err)
	}
	for _, l := range left {
		// A source that is shared may hold one for each process of the machine.
		if t.Test != nil && t.Test.Shared != "" && strings.Contains(l, "[pidfd]") {
			continue
		}
		t.Errorf("left open: descriptor %s", l)
	}
	for _, c := range t.Cells {
		list = append(list, c.verdict)
	}
	return list
}

// Try calls f unless the test has ended on this backend. f may end the test on this
// backend while the others go on. Try reports whether this one goes on.
func (c *Cell) Try(f func()) (goesOn bool) {
	if !c.over && !c.guard(f) {
		c.over = true
	}
	return !c.over
}

// Over reports whether the test has ended on this backend.
func (c *Cell) Over() bool { return c.over }
