package gotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Sum counts tests and prints the failed tests.
type Sum struct {
	Out      io.Writer
	count    map[record.State]int
	failures []string
}

// Add counts a result.
func (s *Sum) Add(name string, state record.State, reason string) {
	if s.count == nil {
		s.count = make(map[record.State]int)
	}
	if !state.Good() {
		s.failures = append(s.failures, name+": "+reason)
		state = record.Fail
	}
	s.count[state]++
}

// GoTest counts the tests in the output of go test -json. Of a test with subtests it counts the
// subtests. A package that failed without a failed test, for example because it does not build,
// counts as one failure.
func (s *Sum) GoTest(r io.Reader) error {
	parsers := make(map[string]*parser)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e struct{ Action, Package, Test, Output string }
		switch {
		case !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil:
			s.Out.Write(line) // a message of go
		case e.Action == "build-output":
			io.WriteString(s.Out, e.Output)
		case e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" && e.Output != "FAIL\n" {
				io.WriteString(s.Out, e.Output)
			}
		case e.Action == "output":
			if parsers[e.Package] == nil {
				parsers[e.Package] = s.parser(e.Package)
			}
			io.WriteString(parsers[e.Package], e.Output)
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
			before := s.count[record.Fail]
			if p := parsers[e.Package]; p != nil {
				p.close("the test binary ended")
			}
			if e.Action == "fail" && s.count[record.Fail] == before {
				s.Add(e.Package, record.Fail, "the package failed, but no test failed")
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// parser returns the parser of a package's output.
func (s *Sum) parser(pkg string) *parser {
	return &parser{started: func(string) {}, going: func() {}, ended: func(test string, o outcome) {
		name := pkg + " " + test
		if o.state == record.Fail {
			fmt.Fprintf(s.Out, "--- %s\n%s", name, o.log.String())
		}
		if len(o.subtests) == 0 || o.state == record.Fail && !o.hasSubtest(record.Fail) {
			s.Add(name, o.state, o.reason)
		}
		for sub, e := range o.subtests {
			if e.state == "" {
				e.state, e.reason = record.Fail, o.reason
			}
			s.Add(name+"/"+sub, e.state, e.reason)
		}
	}}
}

// Print prints the failed tests, and the sum as the last line. It returns whether nothing failed.
func (s *Sum) Print() bool {
	for _, f := range s.failures {
		fmt.Fprintln(s.Out, "FAILED", f)
	}
	fmt.Fprintf(s.Out, "%d passed, %d failed", s.count[record.Pass], s.count[record.Fail])
	if n := s.count[record.Skip]; n > 0 {
		fmt.Fprintf(s.Out, ", %d skipped", n)
	}
	fmt.Fprintln(s.Out)
	return s.count[record.Fail] == 0
}
