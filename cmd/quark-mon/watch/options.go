package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/selection"
)

// options are the command line.
type options struct {
	selection.Options
	drop                 bool
	json, lineage, text  bool
	names, host          bool
	columns              string
	verb                 string // "tree", "top" or nothing
	duration             time.Duration
	shown                []line.Column // nil unless events are printed as lines
	count                bool
	enrich               bool
	noSnapshot           bool
	verbose              int
	record, replay, tree string
	outputTo             string
	quiet                bool
}

func newFlags(o *options) *pflag.FlagSet {
	all := command.NewFlags("quark-mon")
	command.Group(all, "Where events come from", func(f *pflag.FlagSet) {
		o.Backend(f)
		f.StringVarP(&o.replay, "replay", "R", "", "show what is recorded in this `file`")
	})
	command.Group(all, "Which events", func(f *pflag.FlagSet) {
		o.Events(f)
		f.BoolVarP(&o.noSnapshot, "no-snapshot", "s", false, "do not print the processes that exist at the start")
	})
	command.Group(all, "Which of them are shown", o.Filter)
	command.Group(all, "What is printed", func(f *pflag.FlagSet) {
		f.StringVar(&o.columns, "columns", "", "a line an event with these `columns`, as on a terminal: a list of "+strings.Join(line.Names(), ", ")+" (default "+line.Default+")")
		f.BoolVar(&o.text, "text", false, "all that is known of each event, as where the output is no terminal")
		f.BoolVarP(&o.json, "json", "j", false, "a JSON object a line")
		f.BoolVar(&o.names, "names", false, "with -j: also the names that this host has for users and groups")
		f.BoolVar(&o.host, "host", false, "with -j: first a line with the host that the events are of")
		f.BoolVarP(&o.lineage, "lineage", "e", false, "also the leaders and the ancestors of each process")
		f.BoolVarP(&o.count, "count", "M", false, "no events but statistics once a second")
		f.BoolVarP(&o.enrich, "proc", "p", false, "with -M and the proc connector: read /proc for each event as without -M")
		f.BoolVarP(&o.quiet, "quiet", "q", false, "no events, for when they are recorded")
		f.CountVarP(&o.verbose, "verbose", "v", "what the backend can report; -vv also the rules of joining; -vvv also statistics once a second")
	})
	command.Group(all, "How events are joined", o.Joining)
	command.Group(all, "What is written", func(f *pflag.FlagSet) {
		f.StringVarP(&o.record, "record", "w", "", "also record all raw events in this `file`")
		f.StringVarP(&o.outputTo, "output", "o", "", "append to this `file` in place of standard output, and open it again on SIGHUP")
		f.StringVarP(&o.tree, "graph", "C", "", "at the end write the tree of processes to this `file`, for dot(1)")
	})
	all.DurationVarP(&o.duration, "duration", "d", 0, "end after this time")
	all.BoolVarP(&o.drop, "drop-privileges", "D", false, "after opening become nobody, in an empty root directory")
	return all
}

// treeColumns are those of tree, which shows the parent by itself.
const treeColumns = "time,dur,user,pid,event,status,argv"

// usageOf returns the usage of the command with a name.
func usageOf(name string) string {
	usage := "usage: " + name + " "
	room := strings.Repeat(" ", len(usage))
	return usage + strings.ReplaceAll(synopsis, "\n", "\n"+room) + "\n       " + name + " completion bash|zsh|fish\n\n" + about
}

const synopsis = `[tree | top] [-bcDegjkMpqstvVh] [--backend NAME]... [-d D] [-B FILE] [-l N]
[--audit-enable] [-P PPID] [--hold-time D]
[-o FILE] [-w FILE] [-R FILE] [-C FILE]
[--text | --names --host -j | --columns LIST] [--events LIST] [--exits all|nonzero] [--failed-execs]
[--environ LIST]
[--uid LIST] [--gid LIST] [--pid LIST] [--tree LIST] [--comm PATTERN]
[--exe PATTERN] [--argv PATTERN] [--container ID] [--cgroup PATTERN]
[--failed] [--filter EXPRESSION] [--rules FILE]`

const about = `Prints what processes do until it is interrupted, then its statistics to
standard error. tree prints it as a tree. top shows on a terminal how much
happens, below which processes, and what fails. completion prints what makes a
shell complete the options.
Without -b, -k, -c and --backend the best of ebpf, kprobe and cnproc that works is
taken. With -R it is a recording that is printed, and nothing is asked of the
kernel.

`

// parse returns the options of a command line, with those of the queue, or nil if help or the
// version was printed instead. It waits for rules no longer than ctx.
func parse(ctx context.Context, args []string, out io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o)
	if shown, err := command.Parse(f, syntax(), args, out); shown || err != nil {
		return nil, err
	}
	operands := f.Args()
	if len(operands) > 0 {
		switch operands[0] {
		case "tree", "top":
			o.verb, operands = operands[0], operands[1:]
		}
	}
	if len(operands) > 0 {
		return nil, fmt.Errorf("unexpected operand %q (see quark-mon -h)", operands[0])
	}
	if f.Changed("duration") && o.duration <= 0 {
		return nil, fmt.Errorf("-d %v: must be above 0", o.duration)
	}
	for _, name := range []string{"replay", "record", "graph", "output"} {
		if file := f.Lookup(name); file.Changed && file.Value.String() == "" {
			return nil, fmt.Errorf("--%s: the name is empty", name)
		}
	}
	for name, standard := range map[string]string{"replay": "/dev/stdin", "record": "/dev/stdout", "graph": "/dev/stdout", "output": "/dev/stdout"} {
		if f.Lookup(name).Value.String() == "-" {
			return nil, fmt.Errorf("--%s -: write %s, or ./- for the file of this name", name, standard)
		}
	}
	if o.replay != "" && f.Changed("proc") {
		return nil, errors.New("--proc has no meaning with -R: leave one out")
	}
	if err := o.chooseForm(f, out); err != nil {
		return nil, err
	}
	if o.outputTo != "" && o.drop {
		return nil, errors.New("--output and --drop-privileges exclude each other, as the file could not be opened again: leave one out")
	}
	if err := o.Finish(ctx, f, o.replay != ""); err != nil {
		return nil, err
	}
	if o.count && !o.enrich && o.Queue.Where == nil {
		// Nobody sees what /proc says.
		o.Queue.CNProc.Enrich = quark.EnrichNone
	}
	return o, nil
}

// syntax returns what the options do not tell of the arguments.
func syntax() command.Syntax {
	return command.Syntax{Usage: usageOf("quark-mon"), Words: []string{"tree", "top"}, Values: map[string]command.Values{
		"events": {List: selection.KindNames(), Many: true}, "columns": {List: line.Names(), Many: true}, "exits": {List: []string{"all", "nonzero"}},
		"backend": {List: quark.EveryBackend.Names()},
	}}
}

// chooseForm chooses how events are printed: as lines on a terminal, unless another form is asked
// for, and as lines of the columns that are asked for.
func (o *options) chooseForm(f *pflag.FlagSet, out io.Writer) (err error) {
	columns := f.Changed("columns")
	for _, pair := range [][2]string{{"text", "json"}, {"columns", "json"}, {"columns", "text"}, {"columns", "lineage"}, {"columns", "count"},
		{"quiet", "json"}, {"quiet", "text"}, {"quiet", "columns"}, {"quiet", "lineage"}, {"quiet", "count"}, {"quiet", "output"}} {
		if f.Changed(pair[0]) && f.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s exclude each other: leave one out", pair[0], pair[1])
		}
	}
	if o.names && (!o.json || o.count || o.verb != "" || o.replay != "") {
		return errors.New("--names has a meaning only with -j, and for events of this host: leave it out")
	}
	if o.host && (!o.json || o.count || o.verb != "") {
		return errors.New("--host has a meaning only with -j, and for events: leave it out")
	}
	for _, name := range map[string][]string{
		"tree": {"text", "json", "lineage", "count", "quiet"},
		"top":  {"columns", "text", "json", "lineage", "count", "quiet", "output", "replay"},
	}[o.verb] {
		if f.Changed(name) {
			return fmt.Errorf("--%s has no meaning with %s: leave one out", name, o.verb)
		}
	}
	switch {
	case o.verb == "top":
		if o.Queue.HoldTime == 0 {
			o.Queue.HoldTime = time.Second
		}
		return checkTerminal(out)
	case columns:
		if o.shown, err = line.Parse(o.columns); err != nil {
			return fmt.Errorf("--columns: %w", err)
		}
	case o.verb == "tree":
		o.shown, err = line.Parse(treeColumns)
	case !o.quiet && o.outputTo == "" && !o.text && !o.json && !o.lineage && !o.count && terminal(out) >= 0:
		o.shown, err = line.Parse(line.Default)
	}
	return err
}
