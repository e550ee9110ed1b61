package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Counts of tests.
type Counts struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Names   []string `json:"failed_names,omitempty"`
}

func (c *Counts) fail(name string) {
	c.Failed++
	c.Names = append(c.Names, name)
}

func (c *Counts) add(o Counts) {
	c.Passed += o.Passed
	c.Failed += o.Failed
	c.Skipped += o.Skipped
	c.Names = append(c.Names, o.Names...)
}

// countRecords counts result records. A job that was started and has no result failed: the last one
// started is what a crash or a hang is known by. Other records, and damaged ones, are passed over.
func countRecords(content []byte) (counts Counts) {
	var open []record.Job
	new(record.Splitter).Feed(content, func(rec any, _ error) {
		switch rec := rec.(type) {
		case record.Start:
			open = append(open, record.Job(rec))
		case record.Result:
			job := rec.Job()
			if i := slices.Index(open, job); i >= 0 {
				open = slices.Delete(open, i, i+1)
			}
			switch {
			case rec.State == record.Pass:
				counts.Passed++
			case rec.State == record.Skip:
				counts.Skipped++
			case rec.Reason != "":
				counts.fail(job.String() + ": " + rec.Reason)
			default:
				counts.fail(job.String())
			}
		}
	})
	for _, job := range open {
		counts.fail(job.String() + ": started and never ended")
	}
	return counts
}

// event is a line of go test -json (see go doc test2json) or of go build -json.
type event struct{ Action, Package, Test, Output string }

// goTests counts the tests of a go test -json stream and shows the stream's output: of tests that
// failed all of it, of the rest the packages' lines. A test with subtests counts by them. A package
// that failed though no test of it did, as it does not build or a panic ended it, counts as one
// failed test.
type goTests struct {
	Counts
	out     io.Writer
	running map[testKey]*goTest
	failed  map[string]bool // packages with a failed test
	rest    []byte          // an incomplete line
}

type testKey struct{ pkg, test string }

// goTest is a test that has not ended.
type goTest struct {
	output                strings.Builder
	hasChild, failedChild bool // subtests that have ended
}

func newGoTests(out io.Writer) *goTests {
	return &goTests{out: out, running: make(map[testKey]*goTest), failed: make(map[string]bool)}
}

// Write takes the stream as it comes.
func (g *goTests) Write(b []byte) (int, error) {
	g.rest = append(g.rest, b...)
	for {
		line, rest, whole := bytes.Cut(g.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		g.rest = rest
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			g.event(&e)
		} else {
			fmt.Fprintf(g.out, "%s\n", line) // not every line of go's is JSON
		}
	}
}

// end ends the stream.
func (g *goTests) end() { g.out.Write(g.rest) }

func (g *goTests) event(e *event) {
	key := testKey{e.Package, e.Test}
	t := g.running[key]
	switch e.Action {
	case "run":
		g.running[key] = new(goTest)
	case "build-output":
		fmt.Fprint(g.out, e.Output)
	case "output":
		if t != nil {
			t.output.WriteString(e.Output)
		} else if e.Output != "PASS\n" && e.Output != "FAIL\n" {
			fmt.Fprint(g.out, e.Output)
		}
	case "pass", "fail", "skip":
		if t != nil {
			g.ended(key, t, e.Action)
		} else if e.Test == "" && e.Action == "fail" && !g.failed[e.Package] {
			for k, t := range g.running {
				if k.pkg == e.Package {
					fmt.Fprint(g.out, t.output.String())
				}
			}
			g.fail(e.Package)
		}
	}
}

func (g *goTests) ended(key testKey, t *goTest, action string) {
	delete(g.running, key)
	failed := action == "fail"
	for i := strings.LastIndexByte(key.test, '/'); i >= 0; i = strings.LastIndexByte(key.test[:i], '/') {
		if parent := g.running[testKey{key.pkg, key.test[:i]}]; parent != nil {
			parent.hasChild = true
			parent.failedChild = parent.failedChild || failed
		}
	}
	switch {
	case failed:
		fmt.Fprint(g.out, t.output.String())
		g.failed[key.pkg] = true
		if !t.failedChild {
			g.fail(key.pkg + " " + key.test)
		}
	case action == "skip":
		g.Skipped++
	case !t.hasChild:
		g.Passed++
	}
}
