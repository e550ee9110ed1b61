package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

// evidence collects the records and the console of a guest, from which score derives its state.
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
	waiting  string   // phase of the guest at the deadline, if no test ran
	refused  string   // reason why it was not booted
	files    record.Files
	claims   []string // features that the kernel must have
	lacks    []string // features that it must not have
	cpus     int      // required number of CPUs, 0 for any
	command  string   // command of a guest without tests; its exit status is the only result

	output func(record.Output) // receives the command's output; nil drops it
}

// add stores a record, or the error of a line of the result port that is not a record.
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

// running returns the jobs without result of the test that was started last, one for each backend.
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

// jobNames returns the jobs of one test as text.
func jobNames(jobs []record.Job) string {
	text := jobs[0].String()
	for _, j := range jobs[1:] {
		text += ", " + j.Backend
	}
	return text
}

// score returns the state of a guest and its cells.
func (e *evidence) score() (state record.State, reason string, cells []Cell) {
	state, reason = e.guestState()
	cells, missing := e.cells(state, reason)
	skipped, failed := 0, 0
	var first Cell // first failed cell
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
		state, reason = record.Fail, "the kernel lacks features that the catalogue claims: "+strings.Join(e.lacking(), ", ")
	case e.machineMismatch() != "":
		state, reason = record.Fail, "the machine differs from the catalogue: "+e.machineMismatch()
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

// guestState returns the state of the guest apart from its tests. The kernel's complaints have
// precedence: an oops may be the reason that a guest hangs or is lost.
func (e *evidence) guestState() (record.State, string) {
	at := ""
	if jobs := e.running(); len(jobs) > 0 {
		at = " in " + jobNames(jobs)
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

// machineMismatch returns how the machine differs from the catalogue's row, or "".
func (e *evidence) machineMismatch() string {
	for _, feature := range e.lacks {
		if e.hello.Features[feature] {
			return "it has " + feature
		}
	}
	if e.cpus != 0 && e.hello.CPUs != e.cpus {
		return fmt.Sprintf("got %d CPUs, want %d", e.hello.CPUs, e.cpus)
	}
	return ""
}

func ending(end *record.End) string {
	if end.Signal != 0 {
		return fmt.Sprintf("the command was killed by signal %d", end.Signal)
	}
	return fmt.Sprintf("the command's exit status is %d", end.Status)
}

// notRun is the prefix of the reasons of tests that had not begun when the guest ended.
const notRun = "not run: "

// cells returns a cell for each job that was planned or has a result, and the number of jobs
// without result. A job without result has the guest's state if it was running. It is lost if it
// had not begun.
func (e *evidence) cells(state record.State, reason string) (cells []Cell, missing int) {
	jobs := e.plan
	if len(jobs) == 0 {
		jobs = e.started
	}
	if len(jobs)+len(e.results) == 0 && e.command != "" {
		return []Cell{e.commandCell(state, reason)}, 0
	}
	results := make(map[record.Job][]record.Result)
	for _, r := range e.results {
		results[r.Job()] = append(results[r.Job()], r)
	}
	running := e.running()
	if state == record.Pass {
		state, reason = record.Lost, "the test was started but has no result"
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
	for _, r := range e.results { // results of jobs that are in no plan
		if len(results[r.Job()]) > 0 {
			add(r.Job())
		}
	}
	return cells, missing
}

// commandCell returns the cell of a command that reports no tests.
func (e *evidence) commandCell(state record.State, reason string) Cell {
	r := record.Result{Test: e.command, Backend: NoBackend, State: state, Reason: reason}
	if e.end != nil {
		r.DurationMS = e.end.DurationMS
	}
	if state == record.Pass && e.end.Status != 0 {
		r.State, r.Reason = record.Fail, ending(e.end)
	}
	return Cell{Result: r}
}
