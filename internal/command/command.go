// Package command has the shared parts of quark's commands: help with titled groups of options, the
// version, shell completion of values, and types of values. Each command is a [cobra.Command].
//
//	root := command.New(&cobra.Command{Use: "quark-x [options]", Long: "...", RunE: run},
//		command.Group{"Where events come from", o.Backend})
//	root.AddCommand(command.New(&cobra.Command{Use: "list", Short: "...", RunE: list}))
//	err := command.Run(ctx, root, os.Args[1:], os.Stdout)
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Group is a title in the help, and a function that adds the options under the title.
type Group struct {
	Title  string
	Define func(*cobra.Command)
}

// New adds the options of all groups to c, and returns c. Without groups the help lists the
// existing options. The caller must print errors. Unless c.Args is set, c accepts no operands.
func New(c *cobra.Command, groups ...Group) *cobra.Command {
	c.SilenceErrors, c.SilenceUsage, c.DisableFlagsInUseLine = true, true, true
	if c.Args == nil {
		c.Args = NoOperands
	}
	c.Flags().SortFlags = false
	sets := make([]*cobra.Command, len(groups))
	for i, g := range groups {
		sets[i] = new(cobra.Command)
		sets[i].Flags().SortFlags = false
		g.Define(sets[i])
		c.Flags().AddFlagSet(sets[i].Flags())
	}
	c.SetFlagErrorFunc(seeHelp)
	c.SetUsageFunc(func(of *cobra.Command) error {
		var b strings.Builder
		if of.Example != "" {
			b.WriteString("Examples:\n" + of.Example + "\n\n")
		}
		b.WriteString("Usage:\n")
		for line := range strings.Lines(of.Use) {
			b.WriteString("  " + strings.TrimSuffix(of.CommandPath(), of.Name()) + line)
		}
		b.WriteByte('\n')
		if of.HasAvailableSubCommands() {
			b.WriteString("\nCommands:\n")
			for _, sub := range of.Commands() {
				if sub.IsAvailableCommand() {
					fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), sub.Short)
				}
			}
		}
		// of may be a command that cobra adds, such as completion.
		if of == c && len(groups) > 0 {
			for i, g := range groups {
				b.WriteString("\n" + g.Title + ":\n" + sets[i].Flags().FlagUsagesWrapped(helpWidth))
			}
			rest := new(cobra.Command)
			for _, name := range []string{"version", "help"} {
				if f := of.Flags().Lookup(name); f != nil {
					rest.Flags().AddFlag(f)
				}
			}
			b.WriteString("\nOther:\n" + rest.Flags().FlagUsages())
		} else {
			b.WriteString("\nOptions:\n" + of.LocalFlags().FlagUsagesWrapped(helpWidth))
		}
		_, err := io.WriteString(of.OutOrStderr(), b.String())
		return err
	})
	return c
}

// helpWidth is the width of the help in columns.
const helpWidth = 100

// NoOperands is the value of Args for a command without operands.
func NoOperands(c *cobra.Command, operands []string) error {
	if len(operands) == 0 {
		return nil
	}
	return seeHelp(c, fmt.Errorf("unexpected operand %q", operands[0]))
}

func seeHelp(c *cobra.Command, err error) error {
	return fmt.Errorf("%w (see %s -h)", err, c.CommandPath())
}

// Run runs the command that the arguments name, with ctx. It writes help and version to out.
func Run(ctx context.Context, root *cobra.Command, args []string, out io.Writer) error {
	root.Version = Version()
	if !root.Runnable() {
		root.RunE = func(_ *cobra.Command, operands []string) error {
			var names []string
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name())
				}
			}
			list := strings.Join(names, ", ")
			if len(operands) > 0 {
				return seeHelp(root, fmt.Errorf("unknown command %q: use one of %s", operands[0], list))
			}
			return seeHelp(root, fmt.Errorf("name a command: %s", list))
		}
		root.Args = cobra.ArbitraryArgs
	}
	root.Flags().BoolP("version", "V", false, "print the version")
	root.SetOut(out)
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Short, c.Args = "print a script that makes a shell complete the options", cobra.ArbitraryArgs
		c.RunE = func(*cobra.Command, []string) error {
			return errors.New("completion: name one shell: bash, zsh, fish or powershell")
		}
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// Complete makes shells complete the value of an option from a list.
func Complete(c *cobra.Command, option string, list ...string) {
	err := c.RegisterFlagCompletionFunc(option, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // c has no such option
	}
}

// CompleteList is like Complete, for an option with a comma-separated list.
func CompleteList(c *cobra.Command, option string, list ...string) {
	err := c.RegisterFlagCompletionFunc(option, func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		for _, one := range list {
			all = append(all, before+one)
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	if err != nil {
		panic(err) // c has no such option
	}
}

// Exclude returns an error if more than one option of a set is given.
func Exclude(c *cobra.Command, sets ...[]string) error {
	for _, set := range sets {
		first := ""
		for _, name := range set {
			switch {
			case !c.Flags().Changed(name):
			case first != "":
				return fmt.Errorf("--%s and --%s exclude each other: omit one", first, name)
			default:
				first = name
			}
		}
	}
	return nil
}

// version is the version of a release. The linker sets it (-X in packaging/build.mk), because a
// release build must not depend on the source directory.
var version string

// Version returns the version of a release or of the main module, or "(devel)" if the binary has
// neither.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
