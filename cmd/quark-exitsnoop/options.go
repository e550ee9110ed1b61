package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/internal/command"
)

// options are the command line.
type options struct {
	verb string
	args []string

	root   string
	json   bool
	noWait bool
	tree   bool
	older  time.Duration

	out *printer
}

const usage = `usage: quark-exitsnoop [-j] [-t] run [--] COMMAND [ARGUMENT...]
       quark-exitsnoop [-j] [-r ROOT] trace [-n] [-t] PID...
       quark-exitsnoop [-j] [-r ROOT] list
       quark-exitsnoop [-j] [-r ROOT] status
       quark-exitsnoop [-r ROOT] clean [--older DURATION]
       quark-exitsnoop completion bash|zsh|fish

run      runs a command and tells how it and what it left behind ended
trace    has the ends of processes recorded, and tells them unless -n is given
         with -t, run and trace do so for all descendants too
list     shows what is traced and which ends were recorded
status   shows whether it runs, its version and its counters
clean    ends it and removes what it has pinned, or only old records

`

var syntax = command.Syntax{Usage: usage, Words: []string{"run", "trace", "list", "status", "clean"}}

// defaultRoot is a tmpfs on all distributions.
const defaultRoot = "/run"

func newFlags(o *options) *pflag.FlagSet {
	f := command.NewFlags("quark-exitsnoop")
	f.BoolVarP(&o.json, "json", "j", false, "print a JSON object a line")
	f.StringVarP(&o.root, "root", "r", defaultRoot, "the directory below which the state is pinned")
	f.BoolVarP(&o.noWait, "no-wait", "n", false, "trace: do not wait for the ends")
	f.BoolVarP(&o.tree, "tree", "t", false, "run, trace: all descendants too")
	f.DurationVar(&o.older, "older", 0, "clean: only delete records older than that")
	return f
}

// parse returns the options of a command line, or nil if help or the version was printed instead.
func parse(args []string, out io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o)
	f.SetInterspersed(false) // what follows run are the command's options, see below
	shown, err := command.Parse(f, syntax, args, out)
	if !shown && err == nil && f.Arg(0) != "run" {
		o = new(options)
		f = newFlags(o)
		shown, err = command.Parse(f, syntax, args, out)
	}
	if shown || err != nil {
		return nil, err
	}
	if f.NArg() == 0 {
		return nil, fmt.Errorf("nothing to do given: run, trace, list, status or clean (%w)", errUsage)
	}
	o.verb, o.args = f.Arg(0), f.Args()[1:]
	if o.verb == "run" && len(o.args) > 0 && o.args[0] == "--" {
		o.args = o.args[1:]
	}
	return o, o.check(f)
}

func (o *options) check(f *pflag.FlagSet) error {
	switch {
	case verbs[o.verb] == nil:
		return fmt.Errorf("cannot %q: run, trace, list, status or clean (%w)", o.verb, errUsage)
	case o.noWait && o.verb != "trace":
		return fmt.Errorf("-n is for trace (%w)", errUsage)
	case o.tree && o.verb != "trace" && o.verb != "run":
		return fmt.Errorf("-t is for run and trace (%w)", errUsage)
	case f.Changed("older") && o.verb != "clean":
		return fmt.Errorf("--older is for clean (%w)", errUsage)
	case f.Changed("older") && o.older <= 0:
		return fmt.Errorf("--older %v: must be more than 0 (%w)", o.older, errUsage)
	case o.verb == "run" && len(o.args) == 0:
		return fmt.Errorf("run: no command given (%w)", errUsage)
	case o.verb == "trace" && len(o.args) == 0:
		return fmt.Errorf("trace: no pid given (%w)", errUsage)
	case o.verb != "run" && o.verb != "trace" && len(o.args) > 0:
		return fmt.Errorf("unexpected operand %q (%w)", o.args[0], errUsage)
	}
	return nil
}
