package main

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/fuzz"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/selection"
)

// options are the options and operands of one subcommand.
type options struct {
	operands           []string
	chosen             map[string]*bool // backends
	monitors, commands []string
	formats            []string
	fuzz               fuzz.Options
	quick              bool
	output, page       string
	build              string
	verbose            bool
	run                fidelity.Options
}

func newCommand(out, errw io.Writer) *cobra.Command {
	root := command.New(&cobra.Command{Use: "quark-fidelity COMMAND [options]",
		Long: "Compares the events of backends and other monitors with ground truth, and compares their costs. It needs root."})
	add := func(c *cobra.Command, do func(*options) error, define ...func(*options, *cobra.Command)) {
		o := new(options)
		for _, d := range define {
			d(o, c)
		}
		c.RunE = func(c *cobra.Command, operands []string) error {
			o.operands = operands
			if err := o.finish(c); err != nil {
				return err
			}
			return do(o)
		}
		root.AddCommand(command.New(c))
	}
	add(&cobra.Command{Use: "run [options] [SCRIPT...]", Short: "score backends in scenarios", Args: cobra.ArbitraryArgs,
		Long: `Runs scenarios that record their own ground truth while all backends listen, and prints a score
for each backend. With SCRIPT it runs scripts written by fuzz. The exit status is 1 if a backend
differs from its capability table.`},
		func(o *options) error {
			if len(o.operands) > 0 {
				return rerun(o, out)
			}
			return runScenarios(o, out, errw)
		}, (*options).addQueueFlags, (*options).addScenarioFlags, (*options).addMonitorFlags, (*options).addOutputFlags)
	add(&cobra.Command{Use: "fuzz [options]", Short: "search for wrong values and uncounted loss",
		Long: `Runs workloads generated from a seed, and searches for wrong values and uncounted loss.
It shrinks the first defect and writes a script for "run SCRIPT". The exit status is
1 with a defect, or if a monitor that stays open leaks.`},
		func(o *options) error { return fuzzBackends(o, out, errw) }, (*options).addQueueFlags, (*options).addFuzzFlags)
	add(&cobra.Command{Use: "bench [options] [FILE...]", Short: "compare cost, reported events and loss of backends and other monitors", Args: cobra.ArbitraryArgs,
		Long: `Runs the same loads under backends and other monitors, in turns. With FILE it prints earlier
benchmarks.`},
		func(o *options) error { return benchmark(o, out, errw) }, (*options).addQueueFlags, (*options).addMonitorFlags, (*options).addBenchFlags, (*options).addOutputFlags)
	add(&cobra.Command{Use: "report [-p PAGE] FILE...", Short: "print the reports of earlier runs", Args: cobra.MinimumNArgs(1)},
		func(o *options) error { return showReports(o, out) }, (*options).addPageFlag)
	add(&cobra.Command{Use: "list", Short: "list the scenarios"}, func(*options) error { return list(out) })
	return root
}

func (o *options) addQueueFlags(c *cobra.Command) {
	o.chosen = selection.Backends(c, backends.Every.Names())
	c.Flags().DurationVar(&o.run.Hold, "hold-time", 0, "hold events this long to order and join them (default 250ms)")
}

func (o *options) addScenarioFlags(c *cobra.Command) {
	c.Flags().StringArrayVarP(&o.run.Scenarios, "scenario", "S", nil, "run only scenarios with this name or pattern")
	c.Flags().IntVarP(&o.run.Repeats, "repeats", "n", 1, "number of runs of each scenario")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "report each step and its time")
}

func (o *options) addMonitorFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.monitors, "monitor", nil, "also score this other monitor: NAME, or all")
	c.Flags().StringArrayVar(&o.commands, "command", nil, "also score this command, with its output in the format of --format")
	c.Flags().StringArrayVar(&o.formats, "format", nil, "`file` that describes the members of a JSON line, or the name of a monitor")
}

func (o *options) addFuzzFlags(c *cobra.Command) {
	o.fuzz.Seed = rand.Uint64N(1e6)
	c.Flags().Uint64Var(&o.fuzz.Seed, "seed", o.fuzz.Seed, "seed of the workloads")
	c.Flags().Lookup("seed").DefValue = "a random number"
	c.Flags().Var((*command.Span)(&o.fuzz.For), "for", "stop after this `time` (default never)")
	c.Flags().BoolVar(&o.fuzz.Faults, "faults", false, "pause the monitor, limit its buffers, start it late, end it early; load the CPUs")
	c.Flags().StringVarP(&o.fuzz.Dir, "output", "o", "", "write the script of a defect to this `directory`")
}

func (o *options) addBenchFlags(c *cobra.Command) {
	c.Flags().IntVarP(&o.run.Repeats, "repeats", "n", 0, "number of turns of each participant (default 6)")
	c.Flags().Var((*command.Span)(&o.fuzz.For), "for", "limit the duration to this `time` (default 15m)")
	c.Flags().StringVar(&o.build, "build", "", "also run this shell `command` as a load, such as a build")
	c.Flags().BoolVar(&o.quick, "quick", false, "run few and short loads; without -n run each once")
}

func (o *options) addOutputFlags(c *cobra.Command) {
	c.Flags().VarP((*command.File)(&o.output), "output", "o", "append the report to this `file`, as JSON lines")
	o.addPageFlag(c)
}

func (o *options) addPageFlag(c *cobra.Command) {
	c.Flags().VarP((*command.File)(&o.page), "page", "p", "write an HTML page to this `file`")
}

func (o *options) finish(c *cobra.Command) error {
	changed := c.Flags().Changed
	// With operands, run repeats scripts and bench prints files. These options do not apply
	// then.
	without := []string{"scenario", "monitor", "command", "format", "output"}
	if c.Name() == "bench" {
		without = append(append(without, "quick", "repeats", "for", "build"), backends.Every.Names()...)
	}
	for _, name := range without {
		if len(o.operands) > 0 && changed(name) {
			return fmt.Errorf("--%s has no effect with operands: omit it", name)
		}
	}
	switch {
	case changed("repeats") && o.run.Repeats < 1:
		return fmt.Errorf("-n %d: must be at least 1", o.run.Repeats)
	case len(o.commands) != len(o.formats):
		return fmt.Errorf("%d --command but %d --format: give one --format for each --command", len(o.commands), len(o.formats))
	}
	for name, chosen := range o.chosen {
		if *chosen {
			set, err := backends.Parse(name)
			if err != nil {
				return err
			}
			o.run.Backends |= set
		}
	}
	o.fuzz.Backends, o.fuzz.Hold = o.run.Backends, o.run.Hold
	return o.addMonitors()
}

// addMonitors adds the monitors that the options name.
func (o *options) addMonitors() error {
	for _, name := range o.monitors {
		if name == "all" {
			o.run.Monitors = append(o.run.Monitors, monitor.All()...)
			continue
		}
		m, err := monitor.Find(name)
		if err != nil {
			return err
		}
		o.run.Monitors = append(o.run.Monitors, m)
	}
	for i, command := range o.commands {
		m, err := monitor.ReadFormat(o.formats[i], command)
		if err != nil {
			return err
		}
		o.run.Monitors = append(o.run.Monitors, m)
	}
	return nil
}
