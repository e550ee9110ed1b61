package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/selection"
)

// options are the options of quark-export, or of its verb replay.
type options struct {
	selection.Options
	recorded      bool
	replay        string // the recording
	metrics, otlp string
	ecs           bool
	output        string
	hash, names   bool
	noSnapshot    bool
	duration      time.Duration
}

// newCommand returns the command line, which calls run with its options.
func newCommand(run func(context.Context, *options) error) *cobra.Command {
	verb := func(o *options, c *cobra.Command) *cobra.Command {
		if o.recorded {
			selection.TakeRecording(c, &o.replay)
		}
		c.RunE = func(c *cobra.Command, _ []string) error {
			if err := o.finish(c); err != nil {
				return err
			}
			return run(c.Context(), o)
		}
		return command.New(c, o.groups()...)
	}
	root := verb(&options{}, &cobra.Command{Use: "quark-export [--metrics ADDRESS] [--otlp URL] [--ecs [-o FILE]] [options]\nquark-export COMMAND [options]",
		Long: "Exports events of processes until it is interrupted. The options for backends and events are the\nsame as those of quark-mon."})
	root.AddCommand(verb(&options{recorded: true}, &cobra.Command{Use: "replay [options] FILE", Short: "export a recording of quark-mon -w",
		Long: "Exports a recording of quark-mon -w at full speed, which is faster than a target accepts events."}))
	return root
}

// groups returns the options of the verb.
func (o *options) groups() []command.Group {
	all := []command.Group{{Title: "Where events go", Define: o.targetOptions}}
	if !o.recorded {
		all = append(all, command.Group{Title: "Where events come from", Define: o.Backend}, command.Group{Title: "Which events", Define: o.Events})
	}
	all = append(all, command.Group{Title: "Which of them are exported", Define: func(c *cobra.Command) {
		c.Flags().BoolVarP(&o.noSnapshot, "no-snapshot", "s", false, "omit the processes that exist at the start")
		o.Filter(c)
	}}, command.Group{Title: "How events are joined", Define: o.Joining})
	if !o.recorded {
		all = append(all, command.Group{Title: "How it runs", Define: func(c *cobra.Command) {
			c.Flags().VarP((*command.Span)(&o.duration), "duration", "d", "exit after this `time`, in seconds or with a unit such as 5m")
		}})
	}
	return all
}

func (o *options) targetOptions(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.metrics, "metrics", "", "serve counters to Prometheus at this `address`, HOST:PORT, below /metrics")
	f.StringVar(&o.otlp, "otlp", "", "send events as log records to the OpenTelemetry collector at this `URL`, such as http://localhost:4318")
	f.BoolVar(&o.ecs, "ecs", false, "print events as documents of the Elastic Common Schema, one per line")
	f.VarP((*command.File)(&o.output), "output", "o", "with --ecs: append to this `file` instead of standard output, and open it again on SIGHUP")
	if !o.recorded {
		f.BoolVar(&o.hash, "hash", false, "with --ecs: add the SHA-256 of executables")
		f.BoolVar(&o.names, "names", false, "with --otlp or --ecs: add the names of users and groups on this host")
	}
}

// finish checks the options and completes the options of the queue.
func (o *options) finish(c *cobra.Command) error {
	switch {
	case o.metrics == "" && o.otlp == "" && !o.ecs:
		return errors.New("nothing to export to: give --metrics ADDRESS, --otlp URL or --ecs")
	case (o.output != "" || o.hash) && !o.ecs:
		return errors.New("--output and --hash need --ecs: add --ecs, or omit them")
	case o.names && o.otlp == "" && !o.ecs:
		return errors.New("--names needs --otlp or --ecs: add one, or omit --names")
	}
	return o.Finish(c)
}
