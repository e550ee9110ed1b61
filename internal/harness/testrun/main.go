package testrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/harness/record"
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
	failed, err := s.main(ctx, args, out, errw)
	if err != nil {
		fmt.Fprintf(errw, "%s: %v\n", s.Program, err)
		return Unusable
	}
	return min(failed, MaxFailed)
}

func (s *Suite) main(ctx context.Context, args []string, out, errw io.Writer) (failed int, err error) {
	o, shown, err := s.parse(args, out)
	if shown || err != nil {
		return 0, err
	}
	tests, err := choose(s.Tests, o.names, o.exclude)
	if err != nil {
		return 0, err
	}
	if o.types {
		tests = slices.DeleteFunc(tests, func(t *Test) bool { return !t.Types })
	}
	if o.list {
		for _, t := range tests {
			fmt.Fprintf(out, "%-22s %s\n", t.Name, t.Doc)
		}
		return 0, nil
	}
	r := &runner{suite: s, options: o, ctx: ctx, out: out, count: make(map[record.State]int)}
	if o.records != "" {
		if r.records, err = record.OpenWriter(o.records); err != nil {
			return 0, fmt.Errorf("open %s for records: %w", o.records, errors.Unwrap(err))
		}
		defer r.records.Close()
	}
	if o.trace {
		if r.trace, err = openTracePipe(); err != nil {
			fmt.Fprintf(errw, "%s: -t has nothing to show: %v\n", s.Program, err)
		}
		defer r.trace.close()
	}
	err = r.run(jobs(tests, o.backends))
	return r.count[Fail], err
}

// testNames returns the names of all tests.
func (s *Suite) testNames() (names []string) {
	for _, t := range s.Tests {
		names = append(names, t.Name)
	}
	return names
}

// options are the command line.
type options struct {
	inProcess bool
	backends  []string
	list      bool
	trace     bool
	verbose   int
	exclude   []string
	types     bool
	records   string
	deadline  time.Duration
	names     []string
}

// parse reads the command line. shown is true if help or the version was asked for and printed.
func (s *Suite) parse(args []string, out io.Writer) (o *options, shown bool, err error) {
	o = new(options)
	f := command.NewFlags(s.Program)
	f.BoolVarP(&o.inProcess, "one-process", "1", false, "run the tests in this process, for a debugger")
	var known []string
	for _, b := range s.Backends {
		known = append(known, b.Name)
		if b.Letter != "" {
			f.BoolP(b.Name, b.Letter, false, "run on "+b.Name)
		}
	}
	var named []string
	f.StringArrayVar(&named, "backend", nil, "run on the backend of this `name`, one of "+strings.Join(known, ", ")+"; may be repeated")
	f.DurationVar(&o.deadline, "deadline", 60*time.Second, "how long a test may take")
	f.StringVarP(&o.records, "json", "j", os.Getenv("QUARK_RESULTS"),
		"append a JSON record a line to this `file` or serial line (default $QUARK_RESULTS)")
	f.BoolVarP(&o.list, "list", "l", false, "list the tests")
	f.BoolVarP(&o.trace, "trace", "t", false, "show what the kernel's trace_pipe had during a test that failed")
	f.CountVarP(&o.verbose, "verbose", "v", "show the logs of all tests; -vv: what they wait for, -vvv: every event")
	f.StringArrayVarP(&o.exclude, "exclude", "x", nil, "leave out the tests that match this pattern; may be repeated")
	f.BoolVar(&o.types, "types", false, "only the tests to run again where the kernel's types come from elsewhere")
	f.Lookup("json").DefValue = "" // as it is not a constant
	shown, err = command.Parse(f, command.Syntax{Usage: s.Usage, Words: s.testNames(), Values: map[string]command.Values{"backend": {List: known}}}, args, out)
	if shown || err != nil {
		return nil, shown, err
	}
	switch {
	case o.deadline <= 0:
		return nil, false, fmt.Errorf("--deadline %v: must be more than 0 (see %s -h)", o.deadline, s.Program)
	case o.inProcess && o.trace:
		return nil, false, fmt.Errorf("-1 and -t exclude each other (see %s -h)", s.Program)
	}
	for _, name := range named {
		if !slices.Contains(known, name) {
			return nil, false, fmt.Errorf("unknown backend %q: it is one of %s (see %s -h)", name, strings.Join(known, ", "), s.Program)
		}
	}
	var defaults []string
	for _, b := range s.Backends {
		if f.Changed(b.Name) || slices.Contains(named, b.Name) {
			o.backends = append(o.backends, b.Name)
		}
		if b.Default {
			defaults = append(defaults, b.Name)
		}
	}
	if o.backends == nil {
		o.backends = defaults
	}
	o.names = f.Args()
	return o, false, nil
}
