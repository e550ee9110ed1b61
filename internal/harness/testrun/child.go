package testrun

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// childMark is the first argument of a child process.
const childMark = "__run"

// Descriptors of a child beside the standard ones.
const (
	reportFD = 3 // where it reports
	orderFD  = 4 // where its orders come from; it ends when they do
)

// order is a line that makes the child run a test.
type order struct {
	Test string `json:"test"`
	Dir  string `json:"dir"` // for its files
}

// report is a line from the child: it is ready for orders, it waits for something, or
// a test or the child itself has ended with verdicts.
type report struct {
	Ready    bool     `json:"ready,omitempty"`
	Waiting  string   `json:"waiting,omitempty"`
	Verdicts verdicts `json:"verdicts,omitempty"` // one for each backend
}

// endOfLog marks the end of a test's log in the child's output.
const endOfLog = "\x00end of log\x00\n"

// Child runs tests, and does not return, if this process was started for that. A
// program that uses this package calls it first.
func (s *Suite) Child() {
	if len(os.Args) != 6 || os.Args[1] != childMark {
		return
	}
	deadline, err1 := strconv.ParseInt(os.Args[3], 10, 64)
	verbose, err2 := strconv.Atoi(os.Args[4])
	if err1 != nil || err2 != nil {
		fmt.Fprintf(os.Stderr, "%s: bad arguments of a child: %q\n", s.Program, os.Args)
		os.Exit(2)
	}
	reports := json.NewEncoder(os.NewFile(reportFD, "reports"))
	orders := json.NewDecoder(os.NewFile(orderFD, "orders"))
	unix.CloseOnExec(reportFD)
	unix.CloseOnExec(orderFD)
	backends := strings.Split(os.Args[2], ",")
	reporting := func(limit time.Duration) *T {
		t := newT(backends, os.Stdout, verbose, limit)
		t.progress = func(what string) { reports.Encode(report{Waiting: what}) }
		return t
	}

	// The fixture is opened and closed like a test around the others. They fail on a
	// backend for which it cannot be opened.
	frame := reporting(time.Duration(deadline))
	list := frame.judge(func() {
		if share := os.Args[5]; share != "" {
			s.Share(frame, share)
		}
		reports.Encode(report{Ready: true})
		for o := (order{}); orders.Decode(&o) == nil; {
			test := s.find(o.Test)
			t := reporting(frame.Limit)
			t.tmp = o.Dir
			for i, c := range frame.Cells {
				t.Cells[i].verdict, t.Cells[i].over = c.verdict, c.over
			}
			os.Setenv("TMPDIR", o.Dir)
			shared := childrenOf(os.Getpid())
			list := t.run(test)
			for _, l := range ownChildren(shared) {
				t.Logf("left behind: %s", l)
				list.blame("left behind: " + l)
			}
			os.Stdout.WriteString(endOfLog)
			reports.Encode(report{Verdicts: list})
		}
	})
	os.Stdout.WriteString(endOfLog)
	reports.Encode(report{Verdicts: list})
	os.Exit(0)
}

// ownChildren kills and reaps the children of this process but for those that tests
// share, and returns their descriptions.
func ownChildren(shared []child) (left []string) {
	for _, c := range childrenOf(os.Getpid()) {
		if slices.Contains(shared, c) {
			continue
		}
		if pid, _ := unix.Wait4(c.pid, nil, unix.WNOHANG|unix.WALL, nil); pid == c.pid {
			left = append(left, fmt.Sprintf("process %d that nobody waited for", c.pid))
			continue
		}
		left = append(left, fmt.Sprintf("process %d (%s) still running", c.pid, c.comm))
		unix.Kill(c.pid, unix.SIGKILL)
		unix.Wait4(c.pid, nil, unix.WALL, nil)
	}
	return left
}
