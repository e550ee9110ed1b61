package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/export/output"
	"github.com/quark-linux/quark/internal/command"
)

// options are the command line.
type options struct {
	ebpf, kprobe, cnproc bool
	drop                 bool
	json, lineage, text  bool
	names, ecs           bool
	host, hash           bool
	columns              string
	verb                 string // "tree", "stats", "top" or nothing
	duration             time.Duration
	shown                []line.Column // nil unless events are printed as lines
	count                bool
	enrich               bool
	noSnapshot           bool
	filter               filterOptions
	verbose              int
	record, replay, tree string
	metrics, otlp        string
	outputTo             string
	rotateSize           byteSize
	rotating             output.Options
	quiet                bool
	speed                float64
	events, exits        string
	queue                quark.Options
}

func newFlags(o *options) *pflag.FlagSet {
	all := command.NewFlags(program())
	command.Group(all, "Where events come from", func(f *pflag.FlagSet) {
		f.BoolVarP(&o.ebpf, "ebpf", "b", false, "use the eBPF backend; with -k or -c: try in the order eBPF, kprobe, proc connector")
		f.BoolVarP(&o.kprobe, "kprobe", "k", false, "use the kprobe backend")
		f.BoolVarP(&o.cnproc, "cnproc", "c", false, "use the proc connector")
		f.Func("backend", "use the backend of this `name`, one of "+strings.Join(quark.EveryBackend.Names(), ", ")+"; may be repeated, beside -b, -k and -c", o.addBackend)
		f.DurationVar(&o.queue.ProcPoll.Interval, "interval", 0, "with the backend procpoll: the `time` from one reading of /proc to the next (default 100ms)")
		f.BoolVar(&o.queue.Audit.Enable, "audit-enable", false, "with the backend audit: enable audit if it is not, which slows down system calls until the next boot")
		f.StringVarP(&o.queue.BTF.Path, "btf", "B", "", "take the running kernel's types from this `file` (default $QUARK_BTF_PATH, the kernel's, those carried)")
		f.StringVarP(&o.replay, "replay", "R", "", "show what is recorded in this `file`")
		f.Float64Var(&o.speed, "speed", 0, "with -R: so many times as fast as it was recorded; 1 is in time (default as fast as possible)")
	})
	command.Group(all, "Which events", func(f *pflag.FlagSet) {
		f.StringVar(&o.events, "events", "", "report only these `kinds`: a list of "+strings.Join(kindNames(), ", ")+" (default all but exec_failed)")
		f.BoolVar(&o.queue.FailedExecs, "failed-execs", false, "also report execs that failed: the error and the path asked for")
		f.StringVar(&o.exits, "exits", "all", "report all exits, or only those of a `status` other than 0: all or nonzero")
		f.Func("users", "report only processes of these `users`, a list of ids or names; the kernel leaves out the others (eBPF only)", o.setUsers)
		f.BoolVarP(&o.noSnapshot, "no-snapshot", "s", false, "do not print the processes that exist at the start")
		f.BoolVarP(&o.queue.Threads, "threads", "t", false, "also show events of single threads")
	})
	command.Group(all, "Which of them are shown", o.filter.flags)
	command.Group(all, "What is printed", func(f *pflag.FlagSet) {
		f.StringSliceVar(&o.queue.Environ.Names, "environ", nil, "also the variables with which programs are started: a `list` of names such as LD_*, or * for all")
		f.StringSliceVar(&o.queue.Environ.Redacted, "redact", nil, "with --environ: do not tell the values of these variables, a `list` of names such as *KEY*")
		f.BoolVar(&o.queue.CNProc.TaskStats, "taskstats", false, "with the proc connector: also what each process has used at its end")
		f.StringVar(&o.columns, "columns", "", "a line an event with these `columns`, as on a terminal: a list of "+strings.Join(line.Names(), ", ")+" (default "+line.Default+")")
		f.BoolVar(&o.text, "text", false, "all that is known of each event, as where the output is no terminal")
		f.BoolVarP(&o.json, "json", "j", false, "a JSON object a line")
		f.BoolVar(&o.ecs, "ecs", false, "a document of the Elastic Common Schema a line")
		f.BoolVar(&o.names, "names", false, "with -j, --ecs or --otlp: also the names that this host has for users and groups")
		f.BoolVar(&o.hash, "hash", false, "with -j or --text: also the SHA-256 and the capabilities of the file that a process executes")
		f.BoolVar(&o.host, "host", false, "with -j: first a line with the host that the events are of")
		f.BoolVarP(&o.lineage, "lineage", "e", false, "also the leaders and the ancestors of each process")
		f.BoolVarP(&o.count, "count", "M", false, "no events but statistics once a second")
		f.BoolVarP(&o.enrich, "proc", "p", false, "with -M and the proc connector: read /proc for each event as without -M")
		f.BoolVarP(&o.quiet, "quiet", "q", false, "no events, for when they are recorded or exported")
		f.CountVarP(&o.verbose, "verbose", "v", "what the backend can report; -vv also the rules of joining; -vvv also statistics once a second")
	})
	command.Group(all, "How events are joined", func(f *pflag.FlagSet) {
		f.BoolVarP(&o.queue.MinAgg, "min-agg", "g", false, "join as little as possible: FORK, EXEC and EXIT one by one")
		f.DurationVar(&o.queue.HoldTime, "hold-time", 0, "hold events this long to order and join them (default 1s)")
		f.IntVarP(&o.queue.MaxLength, "max-length", "l", 0, "buffer at most this many events (default 10000)")
	})
	command.Group(all, "What is written", func(f *pflag.FlagSet) {
		f.StringVarP(&o.record, "record", "w", "", "also record all raw events in this `file`")
		f.StringVar(&o.outputTo, "output", "", "write events, as -j, --ecs, -e or --text, to this `target` in place of standard output: a file or FIFO, journald, syslog, syslog+unix:PATH, syslog+udp://HOST:PORT or syslog+tcp://HOST:PORT")
		f.Var(&o.rotateSize, "rotate-size", "with --output FILE: rename the file before it has more than this `size`, such as 100M")
		f.DurationVar(&o.rotating.RotateEvery, "rotate-every", 0, "with --output FILE: also rename it at each multiple of this `time`; 24h is midnight in UTC")
		f.IntVar(&o.rotating.Keep, "keep", 0, "with --output FILE: keep this `number` of renamed files (default all)")
		f.StringVarP(&o.tree, "graph", "C", "", "at the end write the tree of processes to this `file`, for dot(1)")
	})
	command.Group(all, "What is exported, by quark-export", func(f *pflag.FlagSet) {
		f.StringVar(&o.metrics, "metrics", "", "serve counters to Prometheus at this `address`, HOST:PORT, below /metrics")
		f.StringVar(&o.otlp, "otlp", "", "send events as log records to the OpenTelemetry collector at this `URL`, such as http://localhost:4318")
	})
	all.DurationVarP(&o.duration, "duration", "d", 0, "end after this time")
	all.BoolVarP(&o.drop, "drop-privileges", "D", false, "after opening become nobody, in an empty root directory")
	return all
}

// addBackend takes a value of --backend.
func (o *options) addBackend(name string) error {
	set, err := quark.ParseBackend(name)
	o.queue.Backends |= set
	return err
}

// setUsers takes the value of --users.
func (o *options) setUsers(list string) error {
	o.queue.Users = nil
	for name := range strings.SplitSeq(list, ",") {
		id, err := userID(name)
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil || n == math.MaxUint32 { // the kernel's "no user"
			return fmt.Errorf("%q is no user id", id)
		}
		o.queue.Users = append(o.queue.Users, uint32(n))
	}
	return nil
}

// kindNames returns the names that --events takes.
func kindNames() (names []string) {
	for k := range quark.Kind(quark.NumKinds) {
		if k.Events() != quark.EventGap {
			names = append(names, strings.ToLower(k.String()))
		}
	}
	return names
}

// treeColumns are those of tree, which shows the parent by itself.
const treeColumns = "time,dur,user,pid,event,status,argv"

// usageOf returns the usage of the command with a name.
func usageOf(name string) string {
	usage := "usage: " + name + " "
	room := strings.Repeat(" ", len(usage))
	return usage + strings.ReplaceAll(synopsis, "\n", "\n"+room) + "\n       " + name + " completion bash|zsh|fish\n\n" + about
}

const synopsis = `[tree | stats | top] [-bcDegjkMpqstvVh] [--backend NAME]... [--interval D] [-d D] [-B FILE] [-l N]
[--audit-enable] [-P PPID] [--hold-time D]
[--output TARGET [--rotate-size SIZE] [--rotate-every D] [--keep N]]
[-w FILE] [-R FILE [--speed N]] [-C FILE] [--metrics ADDRESS] [--otlp URL]
[--text | --names --host -j | --ecs | --columns LIST] [--hash] [--events LIST] [--exits all|nonzero] [--failed-execs]
[--users LIST] [--environ LIST [--redact LIST]]
[--taskstats]
[--uid LIST] [--gid LIST] [--pid LIST] [--tree LIST] [--comm PATTERN]
[--exe PATTERN] [--argv PATTERN] [--container ID] [--cgroup PATTERN]
[--failed] [--filter EXPRESSION] [--rules FILE]`

const about = `Prints what processes do until it is interrupted, then its statistics to
standard error. tree prints it as a tree, and stats at the end how often which
command was executed, ended and failed. top shows on a terminal how much
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
		case "tree", "stats", "top":
			o.verb, operands = operands[0], operands[1:]
		}
	}
	if len(operands) > 0 {
		return nil, fmt.Errorf("unexpected operand %q (see quark-mon -h)", operands[0])
	}
	if f.Changed("duration") && o.duration <= 0 {
		return nil, fmt.Errorf("-d %v: must be above 0", o.duration)
	}
	if f.Changed("max-length") && o.queue.MaxLength < 1 {
		return nil, fmt.Errorf("-l %d: must be at least 1", o.queue.MaxLength)
	}
	for _, name := range []string{"btf", "replay", "record", "graph", "rules", "metrics", "otlp", "output"} {
		if file := f.Lookup(name); file.Changed && file.Value.String() == "" {
			return nil, fmt.Errorf("--%s: the name is empty", name)
		}
	}
	for name, standard := range map[string]string{"replay": "/dev/stdin", "record": "/dev/stdout", "graph": "/dev/stdout", "output": "/dev/stdout"} {
		if f.Lookup(name).Value.String() == "-" {
			return nil, fmt.Errorf("--%s -: write %s, or ./- for the file of this name", name, standard)
		}
	}
	for _, name := range []string{"ebpf", "kprobe", "cnproc", "backend", "interval", "audit-enable", "btf", "proc", "threads", "events", "exits", "users", "failed-execs", "environ", "redact", "taskstats"} {
		if o.replay != "" && f.Changed(name) {
			return nil, fmt.Errorf("--%s has no meaning with -R: leave one out", name)
		}
	}
	if f.Changed("speed") && (o.replay == "" || !(o.speed > 0)) {
		return nil, fmt.Errorf("--speed %g: must be above 0, and needs -R", o.speed)
	}
	if err := o.chooseForm(f, out); err != nil {
		return nil, err
	}
	if err := o.checkExports(); err != nil {
		return nil, err
	}
	if f.Changed("events") {
		var err error
		if o.queue.Kinds, err = quark.ParseKinds(o.events); err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
	}
	switch o.exits {
	case "all":
	case "nonzero":
		o.queue.Exits = quark.ExitsNonzero
	default:
		return nil, fmt.Errorf("--exits %q: must be all or nonzero", o.exits)
	}
	for set, chosen := range map[quark.BackendSet]bool{quark.EBPF: o.ebpf, quark.KProbe: o.kprobe, quark.CNProc: o.cnproc} {
		if chosen {
			o.queue.Backends |= set
		}
	}
	for name, of := range map[string]quark.BackendSet{"interval": quark.ProcPoll, "audit-enable": quark.Audit, "taskstats": quark.CNProc} {
		if f.Changed(name) && cmp.Or(o.queue.Backends, quark.EBPF|quark.KProbe|quark.CNProc)&of == 0 {
			return nil, fmt.Errorf("--%s has a meaning only with the backend %s: leave it out, or add --backend %[2]s", name, of.Names()[0])
		}
	}
	var err error
	if o.queue.Where, err = o.filter.compile(ctx); err != nil {
		return nil, err
	}
	for _, name := range o.queue.Where.Variables() {
		if o.replay == "" && !o.queue.Environ.Has(name) {
			return nil, fmt.Errorf("env.%s in a filter: needs --environ %s, and no --redact of it", name, name)
		}
	}
	if o.count && !o.enrich && o.queue.Where == nil && o.otlp == "" {
		// Nobody sees what /proc says.
		o.queue.CNProc.Enrich = quark.EnrichNone
	}
	return o, nil
}

// syntax returns what the options do not tell of the arguments.
func syntax() command.Syntax {
	return command.Syntax{Usage: usageOf(program()), Words: []string{"tree", "stats", "top"}, Values: map[string]command.Values{
		"events": {List: kindNames(), Many: true}, "columns": {List: line.Names(), Many: true}, "exits": {List: []string{"all", "nonzero"}},
		"backend": {List: quark.EveryBackend.Names()},
	}}
}

// chooseForm chooses how events are printed: as lines on a terminal, unless another form is asked
// for, and as lines of the columns that are asked for.
func (o *options) chooseForm(f *pflag.FlagSet, out io.Writer) (err error) {
	columns := f.Changed("columns")
	for _, pair := range [][2]string{{"text", "json"}, {"columns", "json"}, {"columns", "text"}, {"columns", "lineage"}, {"columns", "count"},
		{"quiet", "json"}, {"quiet", "text"}, {"quiet", "columns"}, {"quiet", "lineage"}, {"quiet", "count"}, {"quiet", "ecs"}, {"quiet", "hash"},
		{"output", "quiet"}, {"output", "columns"}, {"output", "count"}, {"output", "hash"},
		{"ecs", "json"}, {"ecs", "text"}, {"ecs", "columns"}, {"ecs", "lineage"}, {"ecs", "count"}, {"ecs", "hash"}} {
		if f.Changed(pair[0]) && f.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s exclude each other: leave one out", pair[0], pair[1])
		}
	}
	if o.names && (!o.json && !o.ecs && o.otlp == "" || o.count && o.otlp == "" || o.verb != "" || o.replay != "") {
		return errors.New("--names has a meaning only with -j, --ecs or --otlp, and for events of this host: leave it out")
	}
	if o.host && (!o.json || o.count || o.verb != "") {
		return errors.New("--host has a meaning only with -j, and for events: leave it out")
	}
	if o.hash && (o.count || o.verb != "" || columns || o.replay != "" || o.drop) {
		return errors.New("--hash has a meaning only with -j or --text, for events of this host, and not with -D: leave it out")
	}
	for _, name := range map[string][]string{
		"tree":  {"text", "json", "ecs", "lineage", "count", "quiet", "output"},
		"stats": {"columns", "text", "ecs", "lineage", "count", "quiet", "output"},
		"top":   {"columns", "text", "json", "ecs", "lineage", "count", "quiet", "output", "replay"},
	}[o.verb] {
		if f.Changed(name) {
			return fmt.Errorf("--%s has no meaning with %s: leave one out", name, o.verb)
		}
	}
	switch {
	case o.verb == "stats":
	case o.verb == "top":
		if o.queue.HoldTime == 0 {
			o.queue.HoldTime = time.Second
		}
		return checkTerminal(out)
	case columns:
		if o.shown, err = line.Parse(o.columns); err != nil {
			return fmt.Errorf("--columns: %w", err)
		}
	case o.verb == "tree":
		o.shown, err = line.Parse(treeColumns)
	case !o.quiet && o.outputTo == "" && !o.text && !o.json && !o.ecs && !o.lineage && !o.count && !o.hash && terminal(out) >= 0:
		o.shown, err = line.Parse(line.Default)
	}
	return err
}
