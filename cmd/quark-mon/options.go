package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/selection"
)

// options are the options of one verb.
type options struct {
	selection.Options
	tree, top, recorded   bool   // chosen verb
	replay                string // operand of replay: the recording
	command               []string
	text, json, lineage   bool
	host                  bool
	columns               columns // nil unless events are printed as lines
	count, quiet          bool
	noSnapshot            bool
	verbose               int
	record, output, graph string
	duration              time.Duration
	drop                  bool
	filtered              bool // options of the user filter events
}

// columns is the value of --columns.
type columns []line.Column

// Set implements pflag.Value.
func (s *columns) Set(list string) (err error) {
	*s, err = line.Parse(list)
	return err
}

func (*columns) String() string { return "" }

// Type implements pflag.Value.
func (*columns) Type() string { return "columns" }

// treeColumns are the columns of tree, which shows the parent by its indentation. narrowTree are
// the columns on a terminal of 80 columns.
const (
	treeColumns = "time,duration,user,pid,event,status,args"
	narrowTree  = "clock,duration,pid,event,status,args"
)

const about = `quark-mon prints events of processes until it is interrupted. Without -b, -k, -c, --audit and --any it uses ebpf, or kprobe
if ebpf does not work.`

const examples = `  quark-mon -- make -j4                          the processes of a command, and which of them fail
  quark-mon --failed                             processes that fail, until Ctrl-C
  quark-mon --filter 'exec and uid != 0'         programs that users other than root execute
  quark-mon -s -j | jq -c .process.args          JSON lines, for other programs
  quark-mon -q -w day.trace                      record all events, for quark-mon replay day.trace`

// newCommand returns the command line of the program. Each verb has its own options, and passes
// them to run.
func newCommand(out io.Writer, run func(context.Context, *options) error) *cobra.Command {
	verb := func(o *options, c *cobra.Command) *cobra.Command {
		c.RunE = func(c *cobra.Command, _ []string) error {
			if err := o.complete(c, out); err != nil {
				return err
			}
			return run(c.Context(), o)
		}
		switch {
		case o.recorded:
			selection.TakeRecording(c, &o.replay)
		case !o.tree && !o.top:
			c.Args = o.takeCommand
		}
		return command.New(c, o.groups()...)
	}
	root := verb(&options{}, &cobra.Command{Use: "quark-mon [options] [-- PROGRAM [ARGUMENT...]]\nquark-mon COMMAND [options]", Long: about, Example: examples})
	replay := verb(&options{recorded: true}, &cobra.Command{Use: "replay [options] FILE", Short: "print a recording",
		Long: "Prints the events of a recording made with -w, as quark-mon prints live events.\nIt does not use the kernel, and works on every system."})
	replay.AddCommand(verb(&options{recorded: true, tree: true}, &cobra.Command{Use: "tree [options] FILE", Short: "print a recording as a tree",
		Long: "Prints a recording, each process below its parent."}))
	root.AddCommand(replay,
		verb(&options{tree: true}, &cobra.Command{Use: "tree [options]", Short: "print events as a tree",
			Long: "Prints events of processes, each process below its parent."}),
		verb(&options{top: true}, &cobra.Command{Use: "top [options]", Short: "show rates, the busiest trees and failing commands",
			Long: "Shows on a terminal the rates of events, the busiest process trees and the failing commands."}))
	return root
}

// groups returns the options of the verb, in groups for the help.
func (o *options) groups() (all []command.Group) {
	if !o.recorded {
		all = append(all, command.Group{Title: "Where events come from", Define: o.Backend}, command.Group{Title: "Which events", Define: o.Events})
	}
	all = append(all, command.Group{Title: "Which events are printed", Define: o.Filter})
	if !o.top {
		all = append(all, command.Group{Title: "What is printed", Define: o.printing})
	}
	all = append(all, command.Group{Title: "How events are joined", Define: o.Joining}, command.Group{Title: "What is written", Define: o.files})
	if !o.recorded {
		all = append(all, command.Group{Title: "How it runs", Define: o.running})
	}
	return all
}

func (o *options) printing(c *cobra.Command) {
	f := c.Flags()
	byDefault := treeColumns
	if !o.tree {
		byDefault = line.Default
		f.BoolVarP(&o.noSnapshot, "no-snapshot", "s", false, "omit the processes that exist at the start; the default for lines, unless -s=false")
		f.BoolVar(&o.text, "text", false, "print all known fields of each event, in several lines")
		f.BoolVarP(&o.json, "json", "j", false, "print one JSON object per line")
		if !o.recorded {
			f.BoolVar(&o.Names, "names", false, "with -j: also print names of users and groups; --uid and --gid use getent(1)")
		}
		f.BoolVar(&o.host, "host", false, "with -j: first print a line with the host of the events")
		f.BoolVarP(&o.lineage, "lineage", "e", false, "also print the leaders and the ancestors of each process")
		f.BoolVarP(&o.count, "count", "M", false, "print statistics once a second instead of events")
		f.BoolVarP(&o.quiet, "quiet", "q", false, "print no events, for use with -w or -C")
	}
	f.Var(&o.columns, "columns", "print each event as a line with these `columns`: a list of "+strings.Join(line.Names(), ", ")+" (default "+byDefault+", fewer on a narrow terminal)")
	f.CountVarP(&o.verbose, "verbose", "v", "print the capability table, and counters at the end; -vv also the rules of joining; -vvv also counters once a second")
	command.CompleteList(c, "columns", line.Names()...)
}

func (o *options) files(c *cobra.Command) {
	f := c.Flags()
	if !o.top {
		f.VarP((*command.File)(&o.output), "output", "o", "append to this `file` instead of standard output, or of standard error with a PROGRAM, and open it again on SIGHUP")
	}
	f.VarP((*command.File)(&o.record), "record", "w", "also record all raw events in this `file`")
	f.VarP((*command.File)(&o.graph), "graph", "C", "at the end write a graph of the processes to this `file`, for dot(1)")
}

func (o *options) running(c *cobra.Command) {
	f := c.Flags()
	f.VarP((*command.Span)(&o.duration), "duration", "d", "exit after this `time`, in seconds or with a unit such as 5m")
	f.BoolVarP(&o.drop, "drop-privileges", "D", false, "after opening, become user nobody in an empty root directory")
}

// takeCommand removes the command from the operands: the operands after --.
func (o *options) takeCommand(c *cobra.Command, operands []string) error {
	if c.ArgsLenAtDash() != 0 {
		if err := command.NoOperands(c, operands); err != nil {
			return fmt.Errorf("%w; to run a program: quark-mon -- %s", err, operands[0])
		}
		return nil
	}
	o.command = operands
	return nil
}

// watchCommand sets the options for a command: only its processes, and a tree unless another form
// is chosen.
func (o *options) watchCommand() error {
	below, err := quark.CompareFilter("tree", "==", strconv.Itoa(os.Getpid()))
	if err != nil {
		return err
	}
	if o.Queue.Where != nil {
		below = quark.AllOf(o.Queue.Where, below)
	}
	o.Queue.Where = below
	o.noSnapshot = true
	if o.graph != "" {
		o.Queue.CacheGraceTime = 24 * time.Hour // keep all processes for the graph
	}
	return o.Check()
}

// defaultColumns returns the columns for lines on out.
func (o *options) defaultColumns(out io.Writer) string {
	width := line.Wide
	if fd := terminal(out); fd >= 0 && o.output == "" {
		width, _, _ = term.GetSize(fd)
	}
	switch {
	case o.tree && width < line.Wide:
		return narrowTree
	case o.tree:
		return treeColumns
	case width < line.Wide:
		return line.Narrow
	}
	return line.Default
}

// complete checks the options and chooses the form of events: lines, unless another form is
// requested. Lines have a short hold time, and omit the initial processes.
func (o *options) complete(c *cobra.Command, out io.Writer) error {
	err := command.Exclude(c, []string{"columns", "text", "json", "quiet"}, []string{"columns", "quiet", "count", "lineage"},
		[]string{"text", "count"}, []string{"names", "count"}, []string{"host", "count"}, []string{"output", "quiet"})
	switch {
	case err != nil:
		return err
	case o.Names && !o.json, o.host && !o.json:
		return errors.New("--names and --host need -j: add it, or omit them")
	case o.command != nil && o.drop:
		return errors.New("--drop-privileges and a command exclude each other: omit one")
	case o.output != "" && o.drop:
		return errors.New("--output and --drop-privileges exclude each other, because the file could not be opened again: omit one")
	}
	plain := o.columns == nil && !o.text && !o.json && !o.lineage && !o.count && !o.quiet
	o.tree = o.tree || plain && o.command != nil
	if o.top {
		err = checkTerminal(out)
	} else if o.columns == nil && (o.tree || plain) {
		err = o.columns.Set(o.defaultColumns(out))
	}
	if err != nil {
		return err
	}
	if err := o.Finish(c); err != nil {
		return err
	}
	if o.columns != nil {
		o.noSnapshot = o.noSnapshot || !c.Flags().Changed("no-snapshot")
		if !o.recorded {
			o.Queue.HoldTime = cmp.Or(o.Queue.HoldTime, 100*time.Millisecond)
		}
	}
	o.filtered = o.Queue.Where != nil
	if o.command != nil {
		if err := o.watchCommand(); err != nil {
			return err
		}
	}
	if o.count && o.Queue.Where == nil {
		o.Queue.CNProc.Enrich = quark.EnrichNone // no printed field is from /proc
	}
	return nil
}
