package testrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

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
	err = command.Run(ctx, s.command(func(o *options) (err error) {
		failed, err = s.test(ctx, o, out, errw)
		return err
	}), args, out)
	return failed, err
}

// test runs the tests that the options choose, and returns how many failed.
func (s *Suite) test(ctx context.Context, o *options, out, errw io.Writer) (failed int, err error) {
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

// command returns the command line, which calls test with its options.
func (s *Suite) command(test func(*options) error) *cobra.Command {
	o := new(options)
	c := command.New(&cobra.Command{Use: s.Program + " [options] [TEST...]", Long: s.Long, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			if o.inProcess && o.trace {
				return fmt.Errorf("-1 and -t exclude each other (see %s -h)", s.Program)
			}
			var defaults []string
			for _, b := range s.Backends {
				if c.Flags().Changed(b.Name) {
					o.backends = append(o.backends, b.Name)
				}
				if b.Default {
					defaults = append(defaults, b.Name)
				}
			}
			if o.backends == nil {
				o.backends = defaults
			}
			o.names = names
			return test(o)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, t := range s.Tests {
				names = append(names, t.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}})
	f := c.Flags()
	f.BoolVarP(&o.inProcess, "one-process", "1", false, "run the tests in this process, for a debugger")
	for _, b := range s.Backends {
		f.BoolP(b.Name, b.Letter, false, "run on "+b.Name)
	}
	o.deadline = 60 * time.Second
	f.Var((*command.Span)(&o.deadline), "deadline", "how long a test may take")
	f.StringVarP(&o.records, "json", "j", os.Getenv("QUARK_RESULTS"),
		"append a JSON record a line to this `file` or serial line (default $QUARK_RESULTS)")
	f.BoolVarP(&o.list, "list", "l", false, "list the tests")
	f.BoolVarP(&o.trace, "trace", "t", false, "show what the kernel's trace_pipe had during a test that failed")
	f.CountVarP(&o.verbose, "verbose", "v", "show the logs of all tests; -vv: what they wait for, -vvv: every event")
	f.StringArrayVarP(&o.exclude, "exclude", "x", nil, "leave out the tests that match this pattern; may be repeated")
	f.BoolVar(&o.types, "types", false, "only the tests to run again where the kernel's types come from elsewhere")
	f.Lookup("json").DefValue = "" // as it is not a constant
	return c
}
