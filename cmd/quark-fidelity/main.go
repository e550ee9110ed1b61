// Command quark-fidelity compares what each backend delivers with the truth, which scenarios
// record themselves.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/fuzz"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/report"
)

func main() {
	fuzz.Main()
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "quark-fidelity: %v\n", err)
		os.Exit(1)
	}
}

// errDefects is the error of a run whose printed report has defects.
var errDefects = errors.New("a backend is not what its capability table says: see DEFECT above")

func run(args []string, out, errw io.Writer) error {
	o, err := parse(args, out)
	if o == nil {
		return err
	}
	switch o.command {
	case "list":
		return list(out)
	case "report":
		return showReports(o, out)
	case "compare":
		return compare(o, out)
	case "bench":
		return benchmark(o, out, errw)
	case "fuzz":
		return fuzzBackends(o, out, errw)
	}
	if len(o.operands) > 0 {
		return again(o, out)
	}
	return perform(o, out, errw)
}

func list(out io.Writer) error {
	t := new(report.Table)
	for _, s := range scenario.All() {
		t.Add(s.Name, s.Doc)
	}
	return t.WriteText(out)
}

// perform runs the suite and prints its table.
func perform(o *options, out, errw io.Writer) error {
	began := time.Now()
	o.run.Progress = func(what string) {
		if o.verbose {
			fmt.Fprintf(errw, "%6.1f s  %s\n", time.Since(began).Seconds(), what)
		}
	}
	r, err := fidelity.Perform(o.run)
	if err != nil {
		return err
	}
	r.Print(out)
	if o.output != "" {
		err = r.Append(o.output)
	}
	if o.page != "" {
		err = errors.Join(err, writePage(o.page, r))
	}
	if err == nil && len(r.Defects()) > 0 {
		return errDefects
	}
	return err
}

// readAll returns the reports in all files.
func readAll(paths []string) (list []*fidelity.Report, err error) {
	for _, p := range paths {
		some, err := fidelity.Read(p)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func showReports(o *options, out io.Writer) error {
	list, err := readAll(o.operands)
	if err != nil {
		return err
	}
	defects := false
	for _, r := range list {
		r.Print(out)
		fmt.Fprintln(out)
		defects = defects || len(r.Defects()) > 0
	}
	if o.page != "" {
		if err := writePage(o.page, list...); err != nil {
			return err
		}
	}
	if defects {
		return errDefects
	}
	return nil
}

func compare(o *options, out io.Writer) error {
	var two []*fidelity.Report
	for _, p := range o.operands {
		list, err := fidelity.Read(p)
		if err != nil {
			return err
		}
		// Runs are appended to a file: the last is the newest.
		two = append(two, list[len(list)-1])
	}
	fidelity.Compare(out, two[0], two[1])
	return nil
}

func writePage(path string, list ...*fidelity.Report) error {
	return writeTo(path, func(w io.Writer) error { return fidelity.Page(w, list) })
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

type options struct {
	command              string
	operands             []string
	ebpf, kprobe, cnproc bool
	monitors, commands   []string
	formats              []string
	fuzz                 fuzz.Options
	quick                bool
	output, page         string
	verbose              bool
	run                  fidelity.Options
}

const usage = `usage: quark-fidelity run [-bckv] [--backend NAME]... [-S SCENARIO]... [-n N]
                          [--hold-time D] [-o FILE] [-p PAGE]
                          [--monitor NAME]... [--command COMMAND --format FILE]...
       quark-fidelity run [-bck] [--backend NAME]... [-n N] [--hold-time D] SCRIPT...
       quark-fidelity fuzz [-bck] [--backend NAME]... [--seed N] [--for D] [--faults]
                          [--hold-time D] [-o DIRECTORY]
       quark-fidelity report [-p PAGE] FILE...
       quark-fidelity compare FILE FILE
       quark-fidelity list
       quark-fidelity bench [-bck] [--backend NAME]... [--monitor NAME]...
                          [--command COMMAND --format FILE]... [-n N] [--for D]
                          [--quick] [-o FILE] [-p PAGE]
       quark-fidelity bench [-p PAGE] FILE...
       quark-fidelity completion bash|zsh|fish

run performs scenarios that record their own truth while all backends listen, and
says what each backend saw of it, and with --monitor what programs of others saw. It
needs root, and its exit status is 1 if a backend is not what its capability table
says. fuzz generates workloads from a seed and
searches for wrong values and uncounted loss: it shrinks the first defect and writes a
script, which run SCRIPT performs again; with a defect their exit status is 1, also if
a monitor leaks that stays open all the time. report shows runs again, compare
what differs between two, list the scenarios. bench compares
backends and other monitors under the same loads: what they cost, see and report as
lost; with files it shows earlier benchmarks.

`

func newFlags(o *options) *pflag.FlagSet {
	f := command.NewFlags("quark-fidelity")
	f.BoolVarP(&o.ebpf, "ebpf", "b", false, "listen with the eBPF backend")
	f.BoolVarP(&o.kprobe, "kprobe", "k", false, "listen with the kprobe backend")
	f.BoolVarP(&o.cnproc, "cnproc", "c", false, "listen with the proc connector; without -b, -k, -c and --backend: with all of these that work")
	f.Func("backend", "listen with the backend of this `name`, one of "+strings.Join(backends.Every.Names(), ", ")+"; may be repeated, beside -b, -k and -c",
		func(name string) error {
			set, err := backends.Parse(name)
			o.run.Backends |= set
			return err
		})
	f.StringArrayVarP(&o.run.Scenarios, "scenario", "S", nil, "perform only scenarios of this name or pattern")
	f.IntVarP(&o.run.Repeats, "repeats", "n", 1, "number of times to perform each scenario; bench: of turns of each participant (default 6)")
	f.BoolVar(&o.quick, "quick", false, "bench: run few and short loads, once if -n is not given")
	f.Uint64Var(&o.fuzz.Seed, "seed", 0, "fuzz: the seed of the workloads (default a random number)")
	f.DurationVar(&o.fuzz.For, "for", 0, "fuzz: end after this time (default: never); bench: take no longer (default 15m)")
	f.BoolVar(&o.fuzz.Faults, "faults", false, "fuzz: let the monitor stand still, lack room, begin late, end early; load the CPUs")
	f.DurationVar(&o.run.Hold, "hold-time", 0, "hold events this long to order and join them (default 250ms)")
	f.StringArrayVar(&o.monitors, "monitor", nil, "also score this program of others: NAME, or all")
	f.StringArrayVar(&o.commands, "command", nil, "also score this command, which prints what --format says")
	f.StringArrayVar(&o.formats, "format", nil, "a `file` that says which member of a line of JSON is what, or the name of a monitor")
	f.StringVarP(&o.output, "output", "o", "", "append the report to this `file`, as JSON lines; fuzz: write the script of a defect into this directory")
	f.StringVarP(&o.page, "page", "p", "", "write a page of HTML into this `file`")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say what runs, and after how long")
	return f
}

// operandsOf is the number of operands of each command: -1 is one or more, -2 any number.
var operandsOf = map[string]int{"run": -2, "fuzz": 0, "report": -1, "compare": 2, "list": 0, "bench": -2}

// syntax returns what the options do not tell of the arguments.
func syntax() command.Syntax {
	return command.Syntax{Usage: usage, Words: slices.Sorted(maps.Keys(operandsOf)), Values: map[string]command.Values{
		"backend": {List: backends.Every.Names()},
	}}
}

// parse returns the options of a command line, or nil if it printed help or the version instead.
func parse(args []string, out io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o)
	if shown, err := command.Parse(f, syntax(), args, out); shown || err != nil {
		return nil, err
	}
	if f.NArg() == 0 {
		return nil, fmt.Errorf("no command: run, fuzz, report, compare, list or bench (see quark-fidelity -h)")
	}
	o.command, o.operands = f.Arg(0), f.Args()[1:]
	want, ok := operandsOf[o.command]
	switch n := len(o.operands); {
	case !ok:
		return nil, fmt.Errorf("unknown command %q (see quark-fidelity -h)", o.command)
	case want == -1 && n == 0:
		return nil, fmt.Errorf("%s: which file? (see quark-fidelity -h)", o.command)
	case want >= 0 && n != want:
		return nil, fmt.Errorf("%s: %d operands, not %d (see quark-fidelity -h)", o.command, n, want)
	case o.command == "run" && n > 0 && (len(o.run.Scenarios) > 0 || o.output+o.page != ""):
		return nil, fmt.Errorf("run: scripts are performed without -S, -o and -p")
	case len(o.monitors)+len(o.commands)+len(o.formats) > 0 && (o.command != "run" && o.command != "bench" || n > 0):
		return nil, fmt.Errorf("--monitor, --command and --format are for run, without scripts, and for bench, without files")
	case o.quick && o.command != "bench":
		return nil, fmt.Errorf("--quick is for bench")
	case o.fuzz.For < 0:
		return nil, fmt.Errorf("--for %v: must be more than 0", o.fuzz.For)
	case o.command == "bench" && n > 0 && (o.output != "" || o.quick || f.Changed("repeats") || o.ebpf || o.kprobe || o.cnproc || o.run.Backends != 0):
		return nil, fmt.Errorf("bench: with files nothing is measured: only -p goes with them")
	case len(o.commands) != len(o.formats):
		return nil, fmt.Errorf("each --command has a --format: here are %d and %d", len(o.commands), len(o.formats))
	case o.run.Repeats < 1:
		return nil, fmt.Errorf("-n %d: must be at least 1", o.run.Repeats)
	}
	for set, chosen := range map[backends.Set]bool{backends.EBPF: o.ebpf, backends.KProbe: o.kprobe, backends.CNProc: o.cnproc} {
		if chosen {
			o.run.Backends |= set
		}
	}
	if err := o.addMonitors(); err != nil {
		return nil, err
	}
	if o.command == "bench" && !f.Changed("repeats") {
		o.run.Repeats = 0 // its own default
	}
	if !f.Changed("seed") {
		o.fuzz.Seed = rand.Uint64N(1e6)
	}
	o.fuzz.Backends, o.fuzz.Hold, o.fuzz.Dir = o.run.Backends, o.run.Hold, o.output
	return o, nil
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
