package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/selection"
)

// options are the command line.
type options struct {
	selection.Options
	metrics, otlp string
	ecs           bool
	output        string
	names         bool
	noSnapshot    bool
	replay        string
	duration      time.Duration
}

func newFlags(o *options) *pflag.FlagSet {
	all := command.NewFlags("quark-export")
	command.Group(all, "Where events go", func(f *pflag.FlagSet) {
		f.StringVar(&o.metrics, "metrics", "", "serve counters to Prometheus at this `address`, HOST:PORT, below /metrics")
		f.StringVar(&o.otlp, "otlp", "", "send events as log records to the OpenTelemetry collector at this `URL`, such as http://localhost:4318")
		f.BoolVar(&o.ecs, "ecs", false, "print events as documents of the Elastic Common Schema, one a line")
		f.StringVarP(&o.output, "output", "o", "", "with --ecs: append to this `file` in place of standard output, and open it again on SIGHUP")
		f.BoolVar(&o.names, "names", false, "with --otlp or --ecs: also the names that this host has for users and groups")
	})
	command.Group(all, "Where events come from", func(f *pflag.FlagSet) {
		o.Backend(f)
		f.StringVarP(&o.replay, "replay", "R", "", "export what quark-mon has recorded in this `file`")
	})
	command.Group(all, "Which events", func(f *pflag.FlagSet) {
		o.Events(f)
		f.BoolVarP(&o.noSnapshot, "no-snapshot", "s", false, "leave out the processes that exist at the start")
		o.Filter(f)
	})
	command.Group(all, "How events are joined", o.Joining)
	all.DurationVarP(&o.duration, "duration", "d", 0, "end after this time")
	return all
}

const usage = `usage: quark-export [--metrics ADDRESS] [--otlp URL] [--ecs [-o FILE]] [options]
       quark-export completion bash|zsh|fish

Exports what processes do until it is interrupted. The options that choose the
backend and the events are those of quark-mon.

`

// parse returns the options of a command line, or nil if help or the version was printed instead.
func parse(args []string, out io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o)
	if shown, err := command.Parse(f, command.Syntax{Usage: usage}, args, out); shown || err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected operand %q (see quark-export -h)", f.Arg(0))
	case o.metrics == "" && o.otlp == "" && !o.ecs:
		return nil, errors.New("nothing to export to: give --metrics ADDRESS, --otlp URL or --ecs")
	case o.output != "" && !o.ecs:
		return nil, errors.New("--output has a meaning only with --ecs: leave it out")
	case o.names && (o.otlp == "" && !o.ecs || o.replay != ""):
		return nil, errors.New("--names has a meaning only with --otlp or --ecs, and for events of this host: leave it out")
	case f.Changed("duration") && o.duration <= 0:
		return nil, fmt.Errorf("-d %v: must be above 0", o.duration)
	}
	if err := o.Finish(context.Background(), f, o.replay != ""); err != nil {
		return nil, err
	}
	return o, nil
}
