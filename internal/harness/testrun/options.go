package testrun

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// options are the command line.
type options struct {
	inProcess bool
	backends  map[string]*bool // by name
	list      bool
	trace     bool
	verbose   int
	version   bool
	help      bool
	exclude   []string
	types     bool
	records   string
	deadline  time.Duration
	names     []string
}

func (s *Suite) flags(o *options) *pflag.FlagSet {
	f := pflag.NewFlagSet(s.Program, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.BoolVarP(&o.inProcess, "one-process", "1", false, "run the tests in this process, for a debugger")
	o.backends = make(map[string]*bool)
	for _, b := range s.Backends {
		o.backends[b.Name] = f.BoolP(b.Name, b.Letter, false, "run on "+b.Name)
	}
	f.DurationVar(&o.deadline, "deadline", 60*time.Second, "how long a test may take")
	f.StringVarP(&o.records, "json", "j", os.Getenv("QUARK_RESULTS"), "append a JSON record a line to this file or serial line (default $QUARK_RESULTS)")
	f.BoolVarP(&o.list, "list", "l", false, "list the tests")
	f.BoolVarP(&o.trace, "trace", "t", false, "show what the kernel's trace_pipe had during a test that failed")
	f.CountVarP(&o.verbose, "verbose", "v", "show the logs of all tests; -vv: what they wait for, -vvv: every event")
	f.BoolVarP(&o.version, "version", "V", false, "print the version")
	f.StringArrayVarP(&o.exclude, "exclude", "x", nil, "leave out the tests that match this pattern; may be repeated")
	f.BoolVar(&o.types, "types", false, "only the tests to run again where the kernel's types come from elsewhere")
	f.BoolVarP(&o.help, "help", "h", false, "print this help")
	f.Lookup("json").DefValue = "" // as it is not a constant
	f.Usage = func() {}
	return f
}

func (s *Suite) parse(args []string) (*options, error) {
	o := new(options)
	f := s.flags(o)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.deadline <= 0 {
		return nil, fmt.Errorf("--deadline %v: must be more than 0", o.deadline)
	}
	if o.inProcess && o.trace {
		return nil, fmt.Errorf("-1 and -t exclude each other")
	}
	o.names = f.Args()
	return o, nil
}

// chosen returns the backends to run on.
func (s *Suite) chosen(o *options) (list []string) {
	for _, b := range s.Backends {
		if *o.backends[b.Name] {
			list = append(list, b.Name)
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, b := range s.Backends {
		if b.Default {
			list = append(list, b.Name)
		}
	}
	return list
}
