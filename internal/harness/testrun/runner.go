package testrun

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Suite is a program's tests.
type Suite struct {
	Program string
	Long    string // what the program does, for its help
	Tests   []Test

	// Backends have an option each.
	Backends []Backend

	// Share opens the fixture of a name, once for each process that runs tests with this
	// name in Shared. A Cleanup closes it.
	Share func(t *T, name string)

	// Env are variables, as NAME=VALUE, for the processes that run the tests.
	Env []string

	// Unfit returns why all tests have to be skipped, or "".
	Unfit func() string

	// Keep acquires what all tests need, and returns the function that releases it.
	Keep func() (release func())
}

// Backend is what each test runs on.
type Backend struct {
	Name    string
	Letter  string // the short option, as --NAME; "" for none
	Default bool   // run without any such option
}

// runner runs jobs and reports them.
type runner struct {
	suite *Suite
	*options
	ctx     context.Context
	out     io.Writer
	records *record.Writer
	trace   *tracePipe
	worker  *worker // the child process that the next test can use, if any
	count   map[record.State]int
}

// patience is how long the kernel may take to remove something.
const patience = 2 * time.Second

// run runs the jobs one after the other. The error is of the harness.
func (r *runner) run(all []Job) error {
	unfit := ""
	if r.suite.Unfit != nil {
		unfit = r.suite.Unfit()
	}
	if unfit == "" && r.suite.Keep != nil {
		defer r.suite.Keep()()
	}
	if !r.inProcess {
		if err := adoptOrphans(); err != nil {
			return err
		}
		if unfit == "" && os.Geteuid() == 0 {
			if err := ownMounts(); err != nil {
				return err
			}
		}
	}
	var plan record.Plan
	for _, j := range all {
		for _, b := range j.Backends {
			plan.Jobs = append(plan.Jobs, record.Job{Test: j.Test.Name, Backend: b})
		}
	}
	if err := r.records.Write(plan); err != nil {
		return err
	}
	for i, j := range all {
		if r.ctx.Err() != nil {
			break
		}
		if err := r.job(j, unfit, i+1 < len(all) && j.sharesWith(all[i+1])); err != nil {
			return err
		}
	}
	if r.worker != nil { // interrupted
		r.worker.stop()
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.count[Pass], r.count[Fail], r.count[Skip])
	if r.ctx.Err() != nil {
		return fmt.Errorf("interrupted: %d of %d tests have run", r.count[Pass]+r.count[Fail]+r.count[Skip], len(plan.Jobs))
	}
	return nil
}

// job runs a job, unless the machine is unfit, and reports it. With keep the worker may stay.
func (r *runner) job(j Job, unfit string, keep bool) error {
	for _, b := range j.Backends {
		if err := r.records.Write(record.Start{Test: j.Test.Name, Backend: b}); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.out, "%s: ", j.cell(0))
	begin := time.Now()
	log := new(bytes.Buffer)
	list := each(len(j.Backends), verdict{Skip, unfit})
	if unfit == "" {
		list = r.one(j, keep, log)
	}
	took := time.Since(begin)
	for i, v := range list {
		r.count[v.State]++
		if i > 0 {
			fmt.Fprintf(r.out, "%s: ", j.cell(i))
		}
		r.print(v, took, log.String())
		err := r.records.Write(record.Result{
			Test: j.Test.Name, Backend: j.Backends[i], State: v.State, Reason: v.Reason,
			DurationMS: took.Milliseconds(), Joint: i > 0, Log: record.CutLog(log.String(), record.MaxLog),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// one runs a job and looks for what it left behind.
func (r *runner) one(j Job, keep bool, log *bytes.Buffer) (list verdicts) {
	n := len(j.Backends)
	tmp, err := os.MkdirTemp("", "quark-test-")
	if err == nil {
		defer os.RemoveAll(tmp)
		err = os.Chmod(tmp, 0o755)
	}
	if err != nil {
		return each(n, verdict{Fail, fmt.Sprintf("make a directory: %v", err)})
	}
	r.trace.read()
	var before residue
	if r.inProcess {
		before = readResidue()
		t := newT(j.Backends, r.out, r.verbose, r.deadline)
		t.tmp = tmp
		fmt.Fprintln(r.out)
		list = t.run(j.Test)
		fmt.Fprintf(r.out, "%s: ", j.cell(0))
	} else {
		list, before = r.inWorker(j, keep, tmp, log)
	}
	for _, l := range before.left(patience) {
		fmt.Fprintf(log, "  left behind: %s\n", l)
		list.blame("left behind: " + l)
	}
	if list.failed() {
		r.trace.copyTo(log)
	}
	return list
}

// inWorker runs a job in a child process. It also returns the residue from before the job.
func (r *runner) inWorker(j Job, keep bool, tmp string, log io.Writer) (list verdicts, before residue) {
	w := r.worker
	r.worker = nil
	if w == nil {
		var err error
		if w, err = r.startWorker(j.Backends, j.Test.Shared); err != nil {
			return each(len(j.Backends), verdict{Fail, fmt.Sprintf("start a child process: %v", err)}), readResidue()
		}
		list = w.awaitReady()
	}
	if w.alive {
		list = w.run(j.Test.Name, tmp)
	}
	stays := w.alive && keep && !list.failed()
	if w.alive && !stays {
		list.add(w.stop())
	}
	w.copyLog(log)
	if stays {
		r.worker = w
		return list, w.ready
	}
	return list, w.bare
}

// print ends the line of a job, and shows its log if it failed or with -v.
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
