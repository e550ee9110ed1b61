package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
)

// options are the command line.
type options struct {
	verb string
	args []string

	root    string
	json    bool
	noWait  bool
	older   time.Duration
	version bool
	help    bool

	out *printer
}

const usage = `usage: quark-exitsnoop [-j] [-r ROOT] run [--] COMMAND [ARGUMENT...]
       quark-exitsnoop [-j] [-r ROOT] trace [-n] PID...
       quark-exitsnoop [-j] [-r ROOT] list
       quark-exitsnoop [-j] [-r ROOT] status
       quark-exitsnoop [-r ROOT] clean [--older DURATION]

run      runs a command and tells how it and what it left behind ended
trace    has the ends of processes recorded, and tells them unless -n is given
list     shows what is traced and which ends were recorded
status   shows whether it runs, its version and its counters
clean    ends it and removes what it has pinned, or only old records

`

// defaultRoot is below a tmpfs everywhere.
const defaultRoot = "/run"

func newFlags(o *options, errw io.Writer) *pflag.FlagSet {
	f := pflag.NewFlagSet("quark-exitsnoop", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(errw)
	f.BoolVarP(&o.json, "json", "j", false, "print a JSON object a line")
	f.StringVarP(&o.root, "root", "r", defaultRoot, "the directory below which the state is pinned")
	f.BoolVarP(&o.noWait, "no-wait", "n", false, "trace: do not wait for the ends")
	f.DurationVar(&o.older, "older", 0, "clean: only delete records older than that")
	f.BoolVarP(&o.version, "version", "V", false, "print the version")
	f.BoolVarP(&o.help, "help", "h", false, "print this help")
	f.Usage = func() {}
	return f
}

func parse(args []string, errw io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o, errw)
	// What follows run belongs to the command, options included.
	args, command := cutCommand(args)
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("%w (%w)", err, errUsage)
	}
	switch {
	case o.help:
		fmt.Fprintf(errw, "%s%s", usage, f.FlagUsages())
		return o, nil
	case o.version:
		return o, nil
	case command != nil:
		o.verb, o.args = "run", command
		if f.NArg() > 0 {
			return nil, fmt.Errorf("unexpected operand %q before run (%w)", f.Arg(0), errUsage)
		}
		if len(command) == 0 {
			return nil, fmt.Errorf("run: no command given (%w)", errUsage)
		}
	case f.NArg() == 0:
		return nil, fmt.Errorf("nothing to do given: run, trace, list, status or clean (%w)", errUsage)
	default:
		o.verb, o.args = f.Arg(0), f.Args()[1:]
	}
	return o, o.check(f)
}

// cutCommand splits off the command of run, non-nil if the word is there.
func cutCommand(args []string) (rest, command []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-r" || a == "--root" || a == "-jr" || a == "--older":
			i++ // its argument
		case a == "run":
			command = args[i+1:]
			if len(command) > 0 && command[0] == "--" {
				command = command[1:]
			}
			return args[:i], append([]string{}, command...)
		case len(a) == 0 || a[0] != '-':
			return args, nil
		}
	}
	return args, nil
}

func (o *options) check(f *pflag.FlagSet) error {
	switch {
	case verbs[o.verb] == nil:
		return fmt.Errorf("cannot %q: run, trace, list, status or clean (%w)", o.verb, errUsage)
	case o.noWait && o.verb != "trace":
		return fmt.Errorf("-n is for trace (%w)", errUsage)
	case f.Changed("older") && o.verb != "clean":
		return fmt.Errorf("--older is for clean (%w)", errUsage)
	case f.Changed("older") && o.older <= 0:
		return fmt.Errorf("--older %v: must be more than 0 (%w)", o.older, errUsage)
	case o.verb == "trace" && len(o.args) == 0:
		return fmt.Errorf("trace: no pid given (%w)", errUsage)
	case o.verb != "run" && o.verb != "trace" && len(o.args) > 0:
		return fmt.Errorf("unexpected operand %q (%w)", o.args[0], errUsage)
	}
	return nil
}
