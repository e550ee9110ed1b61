package testrun

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Suite is a program's tests.
type Suite struct {
	Program string
	Usage   string // what -h says before the options
	Version string
	Tests   []Test

	// Backends are the letters of the options that choose a backend.
	Backends []Backend

	// Unfit returns a reason to skip all tests, or "".
	Unfit func() string
}

// Backend is something that each test is run on.
type Backend struct {
	Name    string
	Letter  string // the option
	Default bool   // run without such an option
}

func (s *Suite) find(name string) *Test {
	for i := range s.Tests {
		if s.Tests[i].Name == name {
			return &s.Tests[i]
		}
	}
	return nil
}

// runner runs jobs and reports them.
type runner struct {
	suite *Suite
	*options
	ctx     context.Context
	out     io.Writer
	records *records
	trace   *tracePipe
	count   map[State]int
}

// patience is how long something in the kernel may need to be gone.
const patience = 2 * time.Second

// run runs the jobs one after the other. The error is of the harness.
func (r *runner) run(list []Job) error {
	r.count = make(map[State]int)
	unfit := ""
	if r.suite.Unfit != nil {
		unfit = r.suite.Unfit()
	}
	if !r.inProcess {
		if err := adoptOrphans(); err != nil {
			return err
		}
	}
	for _, j := range list {
		if err := r.ctx.Err(); err != nil {
			break
		}
		if err := r.records.start(j); err != nil {
			return err
		}
		fmt.Fprintf(r.out, "%s: ", j)
		begin := time.Now()
		log := new(output)
		var v verdict
		if unfit != "" {
			v = verdict{Skip, unfit}
		} else {
			v = r.one(j, log)
		}
		took := time.Since(begin)
		r.count[v.State]++
		r.print(v, took, log.String())
		if err := r.records.result(j, v, took, cut(log.String(), maxLog)); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.count[Pass], r.count[Fail], r.count[Skip])
	if r.ctx.Err() != nil {
		return fmt.Errorf("interrupted: %d of %d tests have run", r.count[Pass]+r.count[Fail]+r.count[Skip], len(list))
	}
	return nil
}

// one runs a job and looks for what it left.
func (r *runner) one(j Job, log *output) (v verdict) {
	tmp, err := os.MkdirTemp("", "quark-test-")
	if err != nil {
		return verdict{Fail, fmt.Sprintf("make a directory: %v", err)}
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return verdict{Fail, err.Error()}
	}
	before := readResidue()
	r.trace.discard()
	if r.inProcess {
		t := &T{Name: j.Test.Name, Backend: j.Backend, Verbose: r.verbose, Limit: j.Test.limit(r.deadline), out: r.out, tmp: tmp}
		fmt.Fprintln(r.out)
		v = t.run(j.Test)
		fmt.Fprintf(r.out, "%s: ", j)
	} else {
		v = r.supervise(j, tmp, log)
	}
	for _, l := range before.left(patience) {
		fmt.Fprintf(log, "  left behind: %s\n", l)
		if v.State != Fail {
			v = verdict{Fail, "left behind: " + l}
		}
	}
	if v.State == Fail {
		r.trace.copyTo(log)
	}
	return v
}

// print ends the line of a job and shows its log if that is wanted.
func (r *runner) print(v verdict, took time.Duration, log string) {
	switch v.State {
	case Pass:
		fmt.Fprint(r.out, "ok")
	case Skip:
		fmt.Fprintf(r.out, "skip (%s)", v.Reason)
	case Fail:
		fmt.Fprintf(r.out, "FAIL (%s)", v.Reason)
	}
	if r.verbose > 0 {
		fmt.Fprintf(r.out, " %d ms", took.Milliseconds())
	}
	fmt.Fprintln(r.out)
	if v.State == Fail || r.verbose > 0 {
		fmt.Fprint(r.out, log)
	}
}
