package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

// evidence is all that is known of a guest.
type evidence struct {
	hello    *record.Hello
	plan     []record.Job
	started  []record.Job
	results  []record.Result
	end      *record.End
	damaged  []string
	nDamaged int
	console  []string // complaints
	late     string   // the deadline that passed, "" for none
	waiting  string   // where the guest was at the deadline, when no test ran
	refused  string   // why it was not booted
	files    record.Files
	claims   []string // features that the kernel must have
	lacks    []string // and must not have
	cpus     int      // that the machine must have, 0 if that does not matter
	command  string   // of a guest without tests; its exit status is the only result

	output func(record.Output) // receives what the command writes; nil: it is dropped
}

// add stores a record, or the error of a line of the result port that is no record.
func (e *evidence) add(rec any, err error) {
	switch r := rec.(type) {
	case record.Hello:
		e.hello = &r
	case record.Plan:
		e.plan = append(e.plan, r.Jobs...)
	case record.Start:
		e.started = append(e.started, record.Job(r))
	case record.Result:
		e.results = append(e.results, r)
	case record.Blob:
		err = e.files.Add(r)
	case record.Output:
		if e.output != nil {
			e.output(r)
		}
	case record.End:
		e.end = &r
	}
	if err != nil {
		e.nDamaged++
		if len(e.damaged) < maxDamaged {
			e.damaged = append(e.damaged, err.Error())
		}
	}
}

const maxDamaged = 5

// running returns the jobs of the test that was started last and has no result, one for each
// backend that it runs on together.
func (e *evidence) running() (jobs []record.Job) {
	done := make(map[record.Job]int)
	for _, r := range e.results {
		done[r.Job()]++
	}
	for _, j := range slices.Backward(e.started) {
		if done[j] > 0 {
			continue
		}
		if len(jobs) > 0 && j.Test != jobs[0].Test {
			break
		}
		jobs = append(jobs, j)
	}
	slices.Reverse(jobs)
	return jobs
}

// names returns the jobs of one test as text.
func names(jobs []record.Job) string {
	text := jobs[0].String()
	for _, j := range jobs[1:] {
		text += ", " + j.Backend
	}
	return text
}

// judge returns the state of a guest and its cells.
func (e *evidence) judge() (state record.State, reason string, cells []Cell) {
	state, reason = e.guest()
	cells, missing := e.cells(state, reason)
	skipped, failed := 0, 0
	var first Cell // that is not good
	for _, c := range cells {
		switch {
		case c.State == record.Skip:
			skipped++
		case c.State != record.Pass:
			if failed++; failed == 1 {
				first = c
			}
		}
	}
	switch {
	case state != record.Pass:
	case missing > 0:
		state, reason = record.Lost, fmt.Sprintf("%d of %d tests have no result", missing, len(cells))
	case len(e.lacking()) > 0:
		state, reason = record.Fail, "the kernel lacks what the catalogue claims: "+strings.Join(e.lacking(), ", ")
	case e.odd() != "":
		state, reason = record.Fail, "the machine is not what the catalogue says: "+e.odd()
	case failed > 0:
		why, _, _ := strings.Cut(first.Reason, "\n")
		state, reason = record.Fail, fmt.Sprintf("%d of %d tests, the first: %s @ %s: %s", failed, len(cells), first.Test, first.Backend, why)
	case e.end.Status != 0:
		state, reason = record.Fail, ending(e.end)
	case len(cells) == 0:
		state, reason = record.Fail, "no test ran"
	case skipped == len(cells):
		state, reason = record.Skip, cells[0].Reason
	}
	return state, reason, cells
}

// guest returns the state of the guest apart from its tests. The kernel's complaints come first: an
// oops may be why a guest hangs or is lost.
func (e *evidence) guest() (record.State, string) {
	at := ""
	if jobs := e.running(); len(jobs) > 0 {
		at = " in " + names(jobs)
	}
	switch {
	case e.refused != "":
		return record.BootFail, e.refused
	case len(e.console) > 0:
		i := slices.IndexFunc(e.console, func(c string) bool { return strings.HasPrefix(c, "Kernel panic") })
		return record.Crash, e.console[max(0, i)] + at
	case e.hello == nil && e.late != "":
		return record.BootFail, "no hello: " + e.late
	case e.hello == nil && e.nDamaged == 0:
		return record.BootFail, "the guest ended without a hello"
	case e.late != "":
		if at == "" {
			at = " " + e.waiting
		}
		return record.Hang, e.late + at
	case e.nDamaged > 0:
		return record.Lost, fmt.Sprintf("garbage on the result port: %d lines, the first: %s", e.nDamaged, e.damaged[0])
	case e.end == nil:
		if at == "" {
			at = " after its hello"
		}
		return record.Lost, "the guest ended" + at + " without an end record"
	case e.end.Error != "":
		return record.Fail, e.end.Error
	}
	return record.Pass, ""
}

// lacking returns the claimed features that the kernel does not have.
func (e *evidence) lacking() []string {
	return slices.DeleteFunc(slices.Clone(e.claims), func(c string) bool { return e.hello.Features[c] })
}

// odd returns how the machine is not as odd as it must be, or "".
func (e *evidence) odd() string {
	for _, feature := range e.lacks {
		if e.hello.Features[feature] {
			return "it has " + feature
		}
	}
	if e.cpus != 0 && e.hello.CPUs != e.cpus {
		return fmt.Sprintf("%d CPUs, not %d", e.hello.CPUs, e.cpus)
	}
	return ""
}

func ending(end *record.End) string {
	if end.Signal != 0 {
		return fmt.Sprintf("the command was killed by signal %d", end.Signal)
	}
	return fmt.Sprintf("the command's exit status is %d", end.Status)
}

// notRun begins the reasons of tests that had not begun when the guest ended.
const notRun = "not run: "

// cells returns a cell for each job that was planned or has a result, and how many have no result.
// A job without a result has the guest's state if it was running; if it had not begun it is lost.
func (e *evidence) cells(state record.State, reason string) (cells []Cell, missing int) {
	jobs := e.plan
	if len(jobs) == 0 {
		jobs = e.started
	}
	if len(jobs)+len(e.results) == 0 && e.command != "" {
		return []Cell{e.ofCommand(state, reason)}, 0
	}
	results := make(map[record.Job][]record.Result)
	for _, r := range e.results {
		results[r.Job()] = append(results[r.Job()], r)
	}
	running := e.running()
	if state == record.Pass {
		state, reason = record.Lost, "the test was started and has no result"
	}
	add := func(j record.Job) {
		r := record.Result{Test: j.Test, Backend: j.Backend, State: record.Lost, Reason: notRun + cmp.Or(reason, string(state))}
		if rs := results[j]; len(rs) > 0 {
			r, results[j] = rs[0], rs[1:]
			if !r.State.Good() && r.State != record.Fail {
				r.State, r.Reason = record.Lost, fmt.Sprintf("the result's state is %q", r.State)
			}
		} else if missing++; slices.Contains(running, j) {
			r.State, r.Reason = state, reason
		}
		cells = append(cells, Cell{Result: r})
	}
	for _, j := range jobs {
		add(j)
	}
	for _, r := range e.results { // of jobs that are in no plan
		if len(results[r.Job()]) > 0 {
			add(r.Job())
		}
	}
	return cells, missing
}

// ofCommand returns the cell of a command that reports no tests.
func (e *evidence) ofCommand(state record.State, reason string) Cell {
	r := record.Result{Test: e.command, Backend: NoBackend, State: state, Reason: reason}
	if e.end != nil {
		r.DurationMS = e.end.DurationMS
	}
	if state == record.Pass && e.end.Status != 0 {
		r.State, r.Reason = record.Fail, ending(e.end)
	}
	return Cell{Result: r}
}
