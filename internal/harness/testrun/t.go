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

	out      io.Writer
	progress func(string)
	cleanups []func()
	dirs     int
	tmp      string
}

// newT returns a T for a test on backends.
func newT(backends []string, out io.Writer, verbose int, limit time.Duration) *T {
	t := &T{out: out, Verbose: verbose, Limit: limit}
	for _, b := range backends {
		t.Cells = append(t.Cells, &Cell{T: t, Backend: b, verdict: verdict{State: Pass}})
	}
	return t
}

// stop is what a test panics with to end early.
type stop struct{}

// Logf writes a line to the test's log, which is shown if it fails or with -v.
func (t *T) Logf(format string, args ...any) {
	fmt.Fprintf(t.out, "  "+format+"\n", args...)
}

// Errorf logs a line and makes the test fail, on all its backends.
func (t *T) Errorf(format string, args ...any) {
	t.Logf(format, args...)
	t.worsen(verdict{Fail, fmt.Sprintf(format, args...)})
}

func (t *T) worsen(v verdict) {
	for _, c := range t.Cells {
		if !c.over {
			c.verdict.worsen(v)
		}
	}
}

// Fatalf is Errorf and ends the test.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.Stop()
}

// Skipf ends the test because it does not apply.
func (t *T) Skipf(format string, args ...any) {
	t.worsen(verdict{Skip, fmt.Sprintf(format, args...)})
	t.Stop()
}

// Stop ends the test as it is.
func (t *T) Stop() { panic(stop{}) }

// Waiting names what the test waits for from now on. The report names it if the test
// hangs.
func (t *T) Waiting(what string) {
	if t.progress != nil {
		t.progress(what)
	}
}

// Hang ends the test because what it waits for does not come.
func (t *T) Hang(after time.Duration, what string) {
	t.Fatalf(hangs, after, what)
}

const hangs = "hang: deadline of %v passed while waiting for %s"

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
func (t *T) judge(f func()) verdicts {
	t.Deadline = time.Now().Add(t.Limit)
	before, err := openDescriptors()
	if err != nil {
		return each(len(t.Cells), verdict{Fail, err.Error()})
	}
	defer before.close()
	whole := guard(t.Errorf, t.Logf, f)
	for _, c := range t.Cells {
		if !whole && c.verdict.State == Pass {
			c.Errorf("the test ended early, because of another backend")
		}
		c.over = false // what is found from here on concerns all backends
	}
	for len(t.cleanups) > 0 {
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		guard(t.Errorf, t.Logf, last)
	}
	if left, err := before.left(); err != nil {
		t.Errorf("look for descriptors left open: %v", err)
	} else {
		for _, l := range left {
			t.Errorf("left open: descriptor %s", l)
		}
	}
	return t.verdicts()
}

func (t *T) verdicts() (list verdicts) {
	for _, c := range t.Cells {
		list = append(list, c.verdict)
	}
	return list
}

// guard calls f, reports a panic as a failure, and returns whether f came to its end.
func guard(errorf, logf func(string, ...any), f func()) (whole bool) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stop:
		default:
			errorf("panic: %v", r)
			logf("%s", debug.Stack())
		}
	}()
	f()
	return true
}

// Cell is a running test on one of its backends.
type Cell struct {
	*T
	Backend string
	verdict verdict
	over    bool // the test has ended on this backend
}

// Try calls f unless the test has ended on this backend. f may end the test on this
// backend while the others go on. Try reports whether this one goes on.
func (c *Cell) Try(f func()) (goesOn bool) {
	if !c.over && !guard(c.Errorf, c.Logf, f) {
		c.over = true
	}
	return !c.over
}

// Over reports whether the test has ended on this backend.
func (c *Cell) Over() bool { return c.over }

// Logf logs as T does, with the backend's name if there is more than one.
func (c *Cell) Logf(format string, args ...any) {
	if len(c.Cells) > 1 {
		format = strings.ReplaceAll(c.Backend, "%", "%%") + ": " + format
	}
	c.T.Logf(format, args...)
}

// Errorf logs a line and makes the test fail on this backend.
func (c *Cell) Errorf(format string, args ...any) {
	c.Logf(format, args...)
	c.verdict.worsen(verdict{Fail, fmt.Sprintf(format, args...)})
}

// Fatalf is Errorf and ends the test on this backend.
func (c *Cell) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	c.Stop()
}

// Skipf ends the test on this backend because it does not apply.
func (c *Cell) Skipf(format string, args ...any) {
	c.verdict.worsen(verdict{Skip, fmt.Sprintf(format, args...)})
	c.Stop()
}

// Hang ends the test on this backend because what it waits for does not come.
func (c *Cell) Hang(after time.Duration, what string) { c.Fatalf(hangs, after, what) }
