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

// options are the command line of a verb.
type options struct {
	operands           []string
	chosen             map[string]*bool // backends
	monitors, commands []string
	formats            []string
	fuzz               fuzz.Options
	quick              bool
	output, page       string
	verbose            bool
	run                fidelity.Options
}

// newCommand returns the command line of the program.
func newCommand(out, errw io.Writer) *cobra.Command {
	root := command.New(&cobra.Command{Use: "quark-fidelity COMMAND [options]",
		Long: "Compares what backends and other monitors report with ground truth, and what they cost. It needs root."})
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
	add(&cobra.Command{Use: "run [options] [SCRIPT...]", Short: "score what is reported of scenarios", Args: cobra.ArbitraryArgs,
		Long: `Performs scenarios that record their own ground truth while all backends listen, and prints what
each backend reported of it. With SCRIPT it performs scripts of fuzz again. The exit status is 1 if
a backend is not what its capability table says.`},
		func(o *options) error {
			if len(o.operands) > 0 {
				return again(o, out)
			}
			return perform(o, out, errw)
		}, (*options).listening, (*options).repeating, (*options).monitoring, (*options).writing)
	add(&cobra.Command{Use: "fuzz [options]", Short: "search for wrong values and uncounted loss",
		Long: `Performs workloads that are generated from a seed, and searches for wrong values and uncounted loss.
It shrinks the first defect and writes a script, which run SCRIPT performs again. The exit status is
1 with a defect, or if a monitor that stays open leaks.`},
		func(o *options) error { return fuzzBackends(o, out, errw) }, (*options).listening, (*options).fuzzing)
	add(&cobra.Command{Use: "bench [options] [FILE...]", Short: "compare what backends and other monitors cost, see and lose", Args: cobra.ArbitraryArgs,
		Long: `Runs the same loads under backends and other monitors, in turns. With FILE it prints what earlier
benchmarks wrote.`},
		func(o *options) error { return benchmark(o, out, errw) }, (*options).listening, (*options).monitoring, (*options).benchmarking, (*options).writing)
	add(&cobra.Command{Use: "report [-p PAGE] FILE...", Short: "print runs again", Args: cobra.MinimumNArgs(1)},
		func(o *options) error { return showReports(o, out) }, (*options).paging)
	add(&cobra.Command{Use: "compare FILE FILE", Short: "print what differs between two runs", Args: cobra.ExactArgs(2)},
		func(o *options) error { return compare(o, out) })
	add(&cobra.Command{Use: "list", Short: "list the scenarios"}, func(*options) error { return list(out) })
	return root
}

func (o *options) listening(c *cobra.Command) {
	o.chosen = selection.Backends(c, backends.Every.Names())
	c.Flags().DurationVar(&o.run.Hold, "hold-time", 0, "hold events this long to order and join them (default 250ms)")
}

func (o *options) repeating(c *cobra.Command) {
	c.Flags().StringArrayVarP(&o.run.Scenarios, "scenario", "S", nil, "perform only scenarios of this name or pattern")
	c.Flags().IntVarP(&o.run.Repeats, "repeats", "n", 1, "number of times to perform each scenario")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "say what runs, and after how long")
}

func (o *options) monitoring(c *cobra.Command) {
	c.Flags().StringArrayVar(&o.monitors, "monitor", nil, "also score this program of others: NAME, or all")
	c.Flags().StringArrayVar(&o.commands, "command", nil, "also score this command, which prints what --format says")
	c.Flags().StringArrayVar(&o.formats, "format", nil, "a `file` that says which member of a line of JSON is what, or the name of a monitor")
}

func (o *options) fuzzing(c *cobra.Command) {
	o.fuzz.Seed = rand.Uint64N(1e6)
	c.Flags().Uint64Var(&o.fuzz.Seed, "seed", o.fuzz.Seed, "the seed of the workloads")
	c.Flags().Lookup("seed").DefValue = "a random number"
	c.Flags().Var((*command.Span)(&o.fuzz.For), "for", "end after this `time` (default never)")
	c.Flags().BoolVar(&o.fuzz.Faults, "faults", false, "let the monitor stand still, lack room, begin late, end early; load the CPUs")
	c.Flags().StringVarP(&o.fuzz.Dir, "output", "o", "", "write the script of a defect into this `directory`")
}

func (o *options) benchmarking(c *cobra.Command) {
	c.Flags().IntVarP(&o.run.Repeats, "repeats", "n", 0, "number of turns of each participant (default 6)")
	c.Flags().Var((*command.Span)(&o.fuzz.For), "for", "take no longer than this `time` (default 15m)")
	c.Flags().BoolVar(&o.quick, "quick", false, "run few and short loads, once if -n is not given")
}

func (o *options) writing(c *cobra.Command) {
	c.Flags().VarP((*command.File)(&o.output), "output", "o", "append the report to this `file`, as JSON lines")
	o.paging(c)
}

func (o *options) paging(c *cobra.Command) {
	c.Flags().VarP((*command.File)(&o.page), "page", "p", "write a page of HTML into this `file`")
}

// finish checks the options and completes those of what runs.
func (o *options) finish(c *cobra.Command) error {
	changed := c.Flags().Changed
	// Scripts are performed, files printed.
	without := []string{"scenario", "monitor", "command", "format", "output"}
	if c.Name() == "bench" {
		without = append(append(without, "quick", "repeats", "for"), backends.Every.Names()...)
	}
	for _, name := range without {
		if len(o.operands) > 0 && changed(name) {
			return fmt.Errorf("--%s has no meaning with operands: leave it out", name)
		}
	}
	switch {
	case changed("repeats") && o.run.Repeats < 1:
		return fmt.Errorf("-n %d: must be at least 1", o.run.Repeats)
	case len(o.commands) != len(o.formats):
		return fmt.Errorf("each --command has a --format: here are %d and %d", len(o.commands), len(o.formats))
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

// addMonitors adds the chosen programs of others to those that are run.
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
