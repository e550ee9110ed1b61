package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/command"
)

// options has the options and operands of a verb.
type options struct {
	args []string

	root   string
	json   bool
	noWait bool
	tree   bool
	older  time.Duration

	out *printer
}

// defaultRoot is on a tmpfs in all distributions.
const defaultRoot = "/run"

// verb runs a verb and returns its exit status.
type verb func(context.Context, *options) (int, error)

// newCommand returns the command line, which calls do with the chosen verb.
func newCommand(do func(context.Context, verb, *options) error) *cobra.Command {
	root := command.New(&cobra.Command{Use: "quark-exitsnoop COMMAND [options]",
		Long: "Prints the exit status of any traced process, even if it exits while this command does not run."})
	add := func(c *cobra.Command, v verb, operand string, define ...func(*options, *cobra.Command)) {
		o := new(options)
		c.RunE = func(c *cobra.Command, args []string) error {
			if o.args = args; operand != "" && len(args) == 0 {
				return fmt.Errorf("%s: missing %s (%w)", c.Name(), operand, errUsage)
			}
			return do(c.Context(), v, o)
		}
		if operand != "" {
			c.Args = cobra.ArbitraryArgs
		}
		root.AddCommand(command.New(c))
		for _, d := range define {
			d(o, c)
		}
	}
	run := &cobra.Command{Use: "run [-jt] [--] COMMAND [ARGUMENT...]", Short: "run a command, and print its exit status and those of processes that outlive it"}
	add(run, runCommand, "command", asJSON, wholeTree)
	run.Flags().SetInterspersed(false) // further options belong to the command
	add(&cobra.Command{Use: "trace [-jnt] [-r ROOT] PID...", Short: "record the exits of processes and, without -n, print them"}, trace, "pid", asJSON, pinnedBelow, wholeTree,
		func(o *options, c *cobra.Command) {
			c.Flags().BoolVarP(&o.noWait, "no-wait", "n", false, "do not wait for the exits")
		})
	add(&cobra.Command{Use: "list [-j] [-r ROOT]", Short: "print traced processes and recorded exits"}, list, "", asJSON, pinnedBelow)
	add(&cobra.Command{Use: "status [-j] [-r ROOT]", Short: "print the state, version and counters of the eBPF program"}, status, "", asJSON, pinnedBelow)
	add(&cobra.Command{Use: "clean [-r ROOT] [--older TIME]", Short: "stop the eBPF program and remove its pins, or remove only old records"}, clean, "", pinnedBelow,
		func(o *options, c *cobra.Command) {
			c.Flags().Var((*command.Span)(&o.older), "older", "only delete records older than this `time`")
		})
	return root
}

func asJSON(o *options, c *cobra.Command) {
	c.Flags().BoolVarP(&o.json, "json", "j", false, "print one JSON object per line")
}

func pinnedBelow(o *options, c *cobra.Command) {
	c.Flags().StringVarP(&o.root, "root", "r", defaultRoot, "pin the state below this `directory`")
}

func wholeTree(o *options, c *cobra.Command) {
	c.Flags().BoolVarP(&o.tree, "tree", "t", false, "include all descendants")
}
