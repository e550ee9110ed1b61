package testrun

import (
	"slices"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Test is one test, which is run on each backend.
type Test struct {
	Name string
	Doc  string // one line that says what must hold
	Run  func(*T)

	// Joint tests run once for all backends together, not once for each.
	Joint bool

	// Shared names the fixture that the test uses, which [Suite.Share] opens;
	// consecutive tests with the same name share it. A shared test is joint.
	Shared string

	// Types marks tests that are repeated with the kernel's BTF hidden.
	Types bool

	// Alone gives the test a process of its own, because it cannot undo its changes to the
	// process. Other consecutive tests share a process until one fails, because starting a
	// process takes longer than most tests.
	Alone bool

	// NoBackend tests do not use a backend. They run once, on the backend "none".
	NoBackend bool
}

// joint reports whether the test runs once for all backends together.
func (t *Test) joint() bool { return t.Joint || t.Shared != "" }

// noBackend is the backend of tests that use none.
const noBackend = "none"

// How a test ends.
const (
	Pass = record.Pass
	Fail = record.Fail
	Skip = record.Skip
)

// verdict is the outcome of a test, with the reason if it is not Pass.
type verdict struct {
	State  record.State `json:"state"`
	Reason string       `json:"reason,omitempty"`
}

// verdicts has one verdict for each cell of a job.
type verdicts []verdict

// each returns n equal verdicts.
func each(n int, v verdict) verdicts {
	return slices.Repeat(verdicts{v}, n)
}

// blame makes every cell fail; the first failure of a cell stays.
func (list verdicts) blame(reason string) {
	for i := range list {
		list[i].worsen(verdict{Fail, reason})
	}
}

// add merges verdicts that were found later.
func (list verdicts) add(more verdicts) {
	for i := range list {
		list[i].worsen(more[i])
	}
}

// worsen replaces the verdict by a later one, unless that is Pass or this is Fail.
func (v *verdict) worsen(later verdict) {
	if v.State != Fail && later.State != Pass {
		*v = later
	}
}

// failed reports whether a cell has failed.
func (list verdicts) failed() bool {
	return slices.ContainsFunc(list, func(v verdict) bool { return v.State == Fail })
}
