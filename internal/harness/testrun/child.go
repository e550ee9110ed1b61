package testrun

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// childMark is the first argument of a child process, a task in JSON the second one.
const childMark = "__run"

// task says what tests a child runs, and how.
type task struct {
	Backends []string
	Share    string // the fixture of its tests, if any
	Deadline time.Duration
	Verbose  int
}

// Descriptors of a child beside the standard ones.
const (
	reportFD = 3 // where it reports
	orderFD  = 4 // where its orders come from; it ends when they do
)

// order is a line that makes the child run a test.
type order struct {
	Test string
	Dir  string // for its files
}

// report is a line from the child: it is ready for orders, it waits for something, or
// a test or the child itself has ended with verdicts.
type report struct {
	Ready    bool     `json:",omitempty"`
	Waiting  string   `json:",omitempty"`
	Verdicts verdicts `json:",omitempty"` // one for each backend
}

// Child runs tests, and does not return, if this process was started for that. A
// program that uses this package calls it first.
func (s *Suite) Child() {
	if len(os.Args) != 3 || os.Args[1] != childMark {
		return
	}
	var o task
	err := json.Unmarshal([]byte(os.Args[2]), &o)
	if err == nil {
		err = adoptOrphans()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: child: %v\n", s.Program, err)
		os.Exit(2)
	}
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(orderFD)
	s.serve(&o, json.NewEncoder(os.NewFile(reportFD, "reports")), json.NewDecoder(os.NewFile(orderFD, "orders")))
	os.Exit(0)
}

// serve runs the tests that orders name. The fixture is a test around them: where it cannot be
// opened on a backend, they fail on that backend.
func (s *Suite) serve(o *task, reports *json.Encoder, orders *json.Decoder) {
	reporting := func() *T {
		t := newT(o.Backends, os.Stdout, o.Verbose, o.Deadline)
		t.progress = func(what string) { reports.Encode(report{Waiting: what}) }
		return t
	}
	fixture := reporting()
	list := fixture.judge(func() {
		if o.Share != "" {
			s.Share(fixture, o.Share)
		}
		reports.Encode(report{Ready: true})
		for next := (order{}); orders.Decode(&next) == nil; {
			t := reporting()
			t.tmp = next.Dir
			for i, c := range fixture.Cells {
				t.Cells[i].verdict, t.Cells[i].over = c.verdict, c.over
			}
			os.Setenv("TMPDIR", next.Dir)
			shared := childrenOf(os.Getpid())
			list := t.run(&s.Tests[slices.IndexFunc(s.Tests, func(t Test) bool { return t.Name == next.Test })])
			for _, l := range endChildren(shared) {
				t.Logf("left behind: %s", l)
				list.blame("left behind: " + l)
			}
			reports.Encode(report{Verdicts: list})
		}
	})
	reports.Encode(report{Verdicts: list})
}
