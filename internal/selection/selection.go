package selection

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark"
)

// Options are the options of a command line that choose a backend and events. Add them to a flag
// set group by group, parse the set, then call Finish.
type Options struct {
	Queue quark.Options // complete after Finish

	ebpf, kprobe, cnproc bool
	events, exits        string
	filter               filterOptions
}

// Backend adds the options of the backend.
func (o *Options) Backend(f *pflag.FlagSet) {
	f.BoolVarP(&o.ebpf, "ebpf", "b", false, "use the eBPF backend; with -k or -c: try in the order eBPF, kprobe, proc connector")
	f.BoolVarP(&o.kprobe, "kprobe", "k", false, "use the kprobe backend")
	f.BoolVarP(&o.cnproc, "cnproc", "c", false, "use the proc connector")
	f.Func("backend", "use the backend of this `name`, one of "+strings.Join(quark.EveryBackend.Names(), ", ")+"; may be repeated, beside -b, -k and -c", o.addBackend)
	f.BoolVar(&o.Queue.Audit.Enable, "audit-enable", false, "with the backend audit: enable audit if it is not, which slows down system calls until the next boot")
	f.StringVarP(&o.Queue.BTF.Path, "btf", "B", "", "take the running kernel's types from this `file` (default $QUARK_BTF_PATH, the kernel's, those carried)")
}

// Events adds the options that choose what the backend reports.
func (o *Options) Events(f *pflag.FlagSet) {
	f.StringVar(&o.events, "events", "", "report only these `kinds`: a list of "+strings.Join(KindNames(), ", ")+" (default all but exec_failed)")
	f.BoolVar(&o.Queue.FailedExecs, "failed-execs", false, "also report execs that failed: the error and the path asked for")
	f.StringVar(&o.exits, "exits", "all", "report all exits, or only those of a `status` other than 0: all or nonzero")
	f.BoolVarP(&o.Queue.Threads, "threads", "t", false, "also show events of single threads")
	f.StringSliceVar(&o.Queue.Environ.Names, "environ", nil, "also the variables with which programs are started: a `list` of names such as LD_*, or * for all")
}

// Filter adds the options that choose which of the reported events are shown.
func (o *Options) Filter(f *pflag.FlagSet) { o.filter.flags(f) }

// Joining adds the options of the buffer.
func (o *Options) Joining(f *pflag.FlagSet) {
	f.BoolVarP(&o.Queue.MinAgg, "min-agg", "g", false, "join as little as possible: FORK, EXEC and EXIT one by one")
	f.DurationVar(&o.Queue.HoldTime, "hold-time", 0, "hold events this long to order and join them (default 1s)")
	f.IntVarP(&o.Queue.MaxLength, "max-length", "l", 0, "buffer at most this many events (default 10000)")
}

// addBackend takes a value of --backend.
func (o *Options) addBackend(name string) error {
	set, err := quark.ParseBackend(name)
	o.Queue.Backends |= set
	return err
}

// KindNames returns the names that --events takes.
func KindNames() (names []string) {
	for k := range quark.Kind(quark.NumKinds) {
		if k.Events() != quark.EventGap {
			names = append(names, strings.ToLower(k.String()))
		}
	}
	return names
}

// ofKernel are the options that have no meaning for a recording.
var ofKernel = []string{"ebpf", "kprobe", "cnproc", "backend", "audit-enable", "btf", "threads", "events", "exits", "failed-execs", "environ"}

// Finish checks the parsed options and completes Queue. It waits for rules no longer than ctx. With
// replay the events come from a recording.
func (o *Options) Finish(ctx context.Context, f *pflag.FlagSet, replay bool) error {
	if f.Changed("max-length") && o.Queue.MaxLength < 1 {
		return fmt.Errorf("-l %d: must be at least 1", o.Queue.MaxLength)
	}
	for _, name := range []string{"btf", "rules"} {
		if f.Changed(name) && f.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s: the name is empty", name)
		}
	}
	for _, name := range ofKernel {
		if replay && f.Changed(name) {
			return fmt.Errorf("--%s has no meaning with -R: leave one out", name)
		}
	}
	var err error
	if f.Changed("events") {
		if o.Queue.Kinds, err = quark.ParseKinds(o.events); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
	}
	switch o.exits {
	case "all":
	case "nonzero":
		o.Queue.Exits = quark.ExitsNonzero
	default:
		return fmt.Errorf("--exits %q: must be all or nonzero", o.exits)
	}
	for set, chosen := range map[quark.BackendSet]bool{quark.EBPF: o.ebpf, quark.KProbe: o.kprobe, quark.CNProc: o.cnproc} {
		if chosen {
			o.Queue.Backends |= set
		}
	}
	if f.Changed("audit-enable") && o.Queue.Backends&quark.Audit == 0 {
		return errors.New("--audit-enable has a meaning only with the backend audit: leave it out, or add --backend audit")
	}
	if o.Queue.Where, err = o.filter.compile(ctx); err != nil {
		return err
	}
	for _, name := range o.Queue.Where.Variables() {
		if !replay && !o.Queue.Environ.Has(name) {
			return fmt.Errorf("env.%s in a filter: needs --environ %s", name, name)
		}
	}
	return nil
}
