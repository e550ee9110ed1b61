package testrun

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/quark-linux/quark/internal/record"
)

// Test is one test, which is run once for each backend.
type Test struct {
	Name string
	Doc  string // one line that says what must hold
	Run  func(*T)

	// Shared is for a test that can do with what [Suite.Share] opens under this
	// name, which those next to it use as well.
	Shared string

	// Types is for the tests to run again where the kernel's types come from
	// elsewhere, which show that it works there at all.
	Types bool

	// Alone is for a test that needs a process of its own, as it cannot undo what
	// it does to that or wants it small. Others are run in one with those next to
	// them, until one of them fails: to start a process and warm it up takes longer
	// than most tests.
	Alone bool

	// NoBackend is for a test that has nothing to do with backends: it is run
	// once, as on the backend "none".
	NoBackend bool

	// Times is how often the deadline of a test this one may take; 0 means once.
	Times int
}

// limit is how long the test may take.
func (t *Test) limit(deadline time.Duration) time.Duration {
	return deadline * time.Duration(max(t.Times, 1))
}

// noBackend stands for one where there is none.
const noBackend = "none"

// How a test ends.
const (
	Pass = record.Pass
	Fail = record.Fail
	Skip = record.Skip
)

// verdict is the outcome of a test and, where it is not pass, the reason.
type verdict struct {
	State  record.State `json:"state"`
	Reason string       `json:"reason,omitempty"`
}

// T is what a running test has. It is for one goroutine.
type T struct {
	Name    string
	Backend string

	// Verbose is the number of -v options.
	Verbose int

	// Limit is how long the test may take, and Deadline when that is over. A
	// test that waits has to give up then; it is killed a little later.
	Limit    time.Duration
	Deadline time.Time

	out      io.Writer
	progress func(string)
	verdict  verdict
	cleanups []func()
	dirs     int
	tmp      string
}

// stop is what a test panics with to end early.
type stop struct{}

// Logf writes a line to the test's log, which is shown if it fails or with -v.
func (t *T) Logf(format string, args ...any) {
	fmt.Fprintf(t.out, "  "+format+"\n", args...)
}

// Errorf logs a line and makes the test fail.
func (t *T) Errorf(format string, args ...any) {
	t.Logf(format, args...)
	if t.verdict.State != Fail {
		t.verdict = verdict{Fail, fmt.Sprintf(format, args...)}
	}
}

// Fatalf is Errorf and ends the test.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stop{})
}

// Skipf ends the test, which does not apply for that reason.
func (t *T) Skipf(format string, args ...any) {
	if t.verdict.State != Fail {
		t.verdict = verdict{Skip, fmt.Sprintf(format, args...)}
	}
	panic(stop{})
}

// Failed reports whether the test has failed already.
func (t *T) Failed() bool { return t.verdict.State == Fail }

// Waiting says what the test waits for from now on: should it hang, the report
// names it.
func (t *T) Waiting(what string) {
	if t.progress != nil {
		t.progress(what)
	}
}

// Hang ends the test because what it waits for does not come.
func (t *T) Hang(after time.Duration, what string) {
	t.Fatalf("hang: deadline of %v passed while waiting for %s", after, what)
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
func (t *T) run(test *Test) verdict { return t.judge(func() { test.Run(t) }) }

// judge calls f and the cleanups, and looks for descriptors that are left open.
func (t *T) judge(f func()) verdict {
	t.verdict = verdict{State: Pass}
	t.Deadline = time.Now().Add(t.Limit)
	before, err := openDescriptors()
	if err != nil {
		return verdict{Fail, err.Error()}
	}
	defer before.close()
	t.guard(f)
	for len(t.cleanups) > 0 {
		last := t.cleanups[len(t.cleanups)-1]
		t.cleanups = t.cleanups[:len(t.cleanups)-1]
		t.guard(last)
	}
	if left, err := before.left(); err != nil {
		t.Errorf("look for descriptors left open: %v", err)
	} else {
		for _, l := range left {
			t.Errorf("left open: descriptor %s", l)
		}
	}
	return t.verdict
}

// guard calls f and takes a panic for a failure.
func (t *T) guard(f func()) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, stop:
		default:
			t.Errorf("panic: %v", r)
			t.Logf("%s", debug.Stack())
		}
	}()
	f()
}
