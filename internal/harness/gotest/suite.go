//go:build linux

package gotest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Suite is a set of tests of one test binary.
type Suite struct {
	Name    string                         // of the binary, for errors
	Command func(args ...string) *exec.Cmd // runs the binary
	Parent  string                         // the test that has Tests as subtests, "" if none
	Tests   []Test                         // in their order
	Args    []string                       // further arguments of the binary
	Limit   time.Duration                  // time limit between starts or ends of tests
}

// Test is a test with its results. A result has the state of the subtest with the backend's name,
// or of the whole test if there is no such subtest.
type Test struct {
	Name string
	Jobs []record.Job
}

// Report prints results, and writes them as records.
type Report struct {
	Out     io.Writer
	Verbose bool                 // the logs of all tests, and their durations
	Port    *record.Writer       // nil: no records
	Count   map[record.State]int // results
	printed record.Job           // the job at the start of the unfinished line
}

// RunSuites runs the tests of all suites and reports each. An error is a failure of the harness,
// not of a test.
func RunSuites(ctx context.Context, suites []Suite, r *Report) error {
	r.Count = make(map[record.State]int)
	var plan record.Plan
	for _, s := range suites {
		for _, t := range s.Tests {
			plan.Jobs = append(plan.Jobs, t.Jobs...)
		}
	}
	if err := r.Port.Write(plan); err != nil {
		return err
	}
	for _, s := range suites {
		// If a test ends the binary, run it again for the tests that have not begun.
		for todo := s.Tests; len(todo) > 0; {
			begun, err := s.run(ctx, todo, r)
			if err != nil {
				return err
			}
			rest := slices.DeleteFunc(slices.Clone(todo), func(t Test) bool { return begun[t.Name] })
			if len(rest) == len(todo) {
				return fmt.Errorf("%s: the binary started none of the remaining tests", s.Name)
			}
			todo = rest
		}
	}
	return nil
}

// Pattern returns the argument by which a test binary runs the tests.
func (s *Suite) Pattern(tests []Test) string {
	var names []string
	for _, t := range tests {
		names = append(names, regexp.QuoteMeta(t.Name))
	}
	pattern := "^(" + strings.Join(names, "|") + ")$"
	if s.Parent != "" {
		pattern = "^" + s.Parent + "$/" + pattern
	}
	return "-test.run=" + pattern
}

// run runs the binary once, and returns which of the tests began.
func (s *Suite) run(ctx context.Context, tests []Test, r *Report) (begun map[string]bool, err error) {
	// The binary has no timeout, because it would apply to all tests together.
	cmd := s.Command(append([]string{"-test.v=test2json", "-test.paniconexit0", "-test.timeout=0", s.Pattern(tests)}, s.Args...)...)
	var late atomic.Bool
	limit := time.AfterFunc(s.Limit, func() {
		late.Store(true)
		cmd.Process.Signal(syscall.SIGQUIT) // prints goroutines and exits
	})
	defer limit.Stop()
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	begun = make(map[string]bool)
	failed := r.Count[record.Fail]
	var portErr error
	write := func(rec any) { portErr = cmp.Or(portErr, r.Port.Write(rec)) }
	jobs := func(name string) []record.Job {
		i := slices.IndexFunc(tests, func(t Test) bool { return t.Name == name })
		return tests[i].Jobs
	}
	p := &parser{
		parent: s.Parent,
		started: func(test string) {
			limit.Reset(s.Limit)
			begun[test] = true
			for _, j := range jobs(test) {
				write(record.Start(j))
			}
			r.began(jobs(test)[0])
		},
		going: func() {
			limit.Reset(s.Limit)
			write(record.Output{}) // a sign of life
		},
		ended: func(test string, o outcome) {
			for _, j := range jobs(test) {
				e := o.endingOf(j.Backend)
				res := record.Result{Test: j.Test, Backend: j.Backend, State: e.state, Reason: e.reason, DurationMS: o.took.Milliseconds(), Log: o.log.String()}
				r.print(res)
				res.Log = record.CutLog(res.Log, record.MaxLog)
				write(res)
			}
		},
	}
	cmd.Stdout, cmd.Stderr = p, p
	waitErr := runCommand(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case cmd.Process == nil:
		return nil, waitErr
	}
	why := "the test binary ended"
	if waitErr != nil {
		why += ": " + waitErr.Error()
	}
	if late.Load() {
		why = fmt.Sprintf("no result within %v; see the goroutines in the log", s.Limit)
	}
	p.close(why)
	if waitErr != nil && r.Count[record.Fail] == failed {
		io.WriteString(r.Out, p.rest)
		return nil, fmt.Errorf("%s: %w, although no test failed", s.Name, waitErr)
	}
	return begun, portErr
}

// runCommand runs a command. It does not wait for processes that the command left behind, which may
// hold the output open.
func runCommand(cmd *exec.Cmd) error {
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}

// began prints the start of a test's line.
func (r *Report) began(j record.Job) {
	r.printed = j
	fmt.Fprintf(r.Out, "%s: ", j)
}

// print ends the line of a test, and shows its log if it failed.
func (r *Report) print(res record.Result) {
	r.Count[res.State]++
	if r.printed != res.Job() {
		fmt.Fprintf(r.Out, "%s: ", res.Job())
	}
	r.printed = record.Job{}
	line := map[record.State]string{record.Pass: "ok", record.Skip: "skip", record.Fail: "FAIL"}[res.State]
	if res.Reason != "" {
		line += " (" + res.Reason + ")"
	}
	if r.Verbose {
		line += fmt.Sprintf(" %d ms", res.DurationMS)
	}
	fmt.Fprintln(r.Out, line)
	if res.State == record.Fail || r.Verbose {
		io.WriteString(r.Out, res.Log)
	}
}
