package testrun

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Exit statuses of Main: the number of failed tests up to MaxFailed, and
// Unusable when they could not be run: wrong usage, or the harness broke.
const (
	MaxFailed = 100
	Unusable  = 101
)

// Main runs the program with the arguments given and returns its exit status.
// The end of ctx stops it.
func (s *Suite) Main(ctx context.Context, args []string, out, errw io.Writer) int {
	unusable := func(err error) int {
		fmt.Fprintf(errw, "%s: %v\n", s.Program, err)
		return Unusable
	}
	o, err := s.parse(args)
	if err != nil {
		return unusable(fmt.Errorf("%w (see %s -h)", err, s.Program))
	}
	switch {
	case o.help:
		fmt.Fprintf(out, "%s%s", s.Usage, s.flags(new(options)).FlagUsages())
		return 0
	case o.version:
		fmt.Fprintf(out, "%s %s\n", s.Program, s.Version)
		return 0
	}
	tests, err := choose(s.Tests, o.names, o.exclude)
	if err != nil {
		return unusable(err)
	}
	if o.types {
		tests = slices.DeleteFunc(tests, func(t *Test) bool { return !t.Types })
	}
	if o.list {
		for _, t := range tests {
			fmt.Fprintf(out, "%-22s %s\n", t.Name, t.Doc)
		}
		return 0
	}
	r := &runner{suite: s, options: o, ctx: ctx, out: out}
	if o.records != "" {
		if r.records, err = openRecords(o.records); err != nil {
			return unusable(err)
		}
		defer r.records.close()
	}
	if o.trace {
		if r.trace, err = openTracePipe(); err != nil {
			fmt.Fprintf(errw, "%s: -t has nothing to show: %v\n", s.Program, err)
		}
		defer r.trace.close()
	}
	if err := r.run(jobs(tests, s.chosen(o))); err != nil {
		return unusable(err)
	}
	return min(r.count[Fail], MaxFailed)
}
