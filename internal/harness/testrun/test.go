package testrun

import (
	"time"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Test is one test, which is run on each backend.
type Test struct {
	Name string
	Doc  string // one line that says what must hold
	Run  func(*T)

	// Joint is for a test that is run once for all backends, which all see the same,
	// instead of once for each.
	Joint bool

	// Shared is for a test that can do with what [Suite.Share] opens under this
	// name, which those next to it use as well. It is a joint one, too.
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

// joint tells whether it is run once for all backends.
func (t *Test) joint() bool { return t.Joint || t.Shared != "" }

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

// verdicts are those of a job's cells.
type verdicts []verdict

// each returns the same verdict for all n.
func each(n int, v verdict) verdicts {
	list := make(verdicts, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// blame makes those fail, for that reason, that have not failed yet.
func (list verdicts) blame(reason string) {
	for i := range list {
		list[i].worsen(verdict{Fail, reason})
	}
}

// add takes what also went wrong.
func (list verdicts) add(more verdicts) {
	for i := range list {
		list[i].worsen(more[i])
	}
}

// worsen is for what was found later: the first failure stays.
func (v *verdict) worsen(later verdict) {
	if v.State != Fail && later.State != Pass {
		*v = later
	}
}

// failed is whether one has.
func (list verdicts) failed() bool {
	for _, v := range list {
		if v.State == Fail {
			return true
		}
	}
	return false
}
