package selection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/internal/command"
)

// Options are the options of a command line that choose a backend and events.
type Options struct {
	Queue quark.Options // complete after Finish
	Names bool          // look up users and groups that /etc lacks by getent(1)

	live          bool   // events come from the kernel
	hidden        string // why fields of other processes are missing, if they are
	backends      map[string]*bool
	any           bool // also try backends with fewer fields
	events, exits string
	filter        filterOptions
}

// backends maps each backend to its short option and its help.
var backends = map[string]struct{ letter, help string }{
	"ebpf":   {"b", "use eBPF programs; with -k or -c: try in the order eBPF, kprobe, proc connector"},
	"kprobe": {"k", "use kprobes"},
	"cnproc": {"c", "use the proc connector"},
	"audit":  {"", "use the kernel's audit"},
}

// Backends adds an option for each of the named backends. The result reports which are given.
func Backends(c *cobra.Command, names []string) map[string]*bool {
	chosen := make(map[string]*bool)
	for _, name := range names {
		chosen[name] = c.Flags().BoolP(name, backends[name].letter, false, backends[name].help)
	}
	return chosen
}

// Backend adds the options of the backend.
func (o *Options) Backend(c *cobra.Command) {
	o.live = true
	f := c.Flags()
	o.backends = Backends(c, quark.EveryBackend.Names())
	f.BoolVar(&o.any, "any", false, "also try the proc connector, which reports fewer fields")
	f.BoolVar(&o.Queue.Audit.Enable, "audit-enable", false, "with --audit: enable audit if it is disabled; this slows down system calls until the next boot")
	f.VarP((*command.File)(&o.Queue.BTF.Path), "btf", "B", "read the running kernel's types from this `file` (default $QUARK_BTF_PATH, else the kernel's own types, else the embedded archive)")
}

// Events adds the options that choose the events of the backend.
func (o *Options) Events(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.events, "events", "", "report only these `kinds`: a list of "+strings.Join(kindNames(), ", ")+", or all (default all but exec_failed)")
	f.StringVar(&o.exits, "exits", "all", "report all exits, or only exits with a `status` other than 0: all or nonzero")
	f.BoolVarP(&o.Queue.Threads, "threads", "t", false, "also report events of single threads")
	f.StringSliceVar(&o.Queue.Environ.Names, "environ", nil, "also report these environment variables of started programs: a `list` of names such as LD_*, or * for all")
	command.CompleteList(c, "events", append(kindNames(), "all")...)
	command.Complete(c, "exits", "all", "nonzero")
}

// Filter adds the options that choose which of the reported events are shown.
func (o *Options) Filter(c *cobra.Command) { o.filter.flags(c) }

// Joining adds the options of the buffer.
func (o *Options) Joining(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&o.Queue.MinAgg, "min-agg", "g", false, "join as little as possible: FORK, EXEC and EXIT are separate events")
	f.DurationVar(&o.Queue.HoldTime, "hold-time", 0, "hold events this long to order and join them (default 1s)")
	f.IntVarP(&o.Queue.MaxLength, "max-length", "l", 0, "buffer at most this many events (default 10000)")
}

// kindNames returns the names that --events accepts.
func kindNames() (names []string) {
	for k := range quark.Kind(quark.NumKinds) {
		if k.Events() != quark.EventGap {
			names = append(names, strings.ToLower(k.String()))
		}
	}
	return names
}

// Finish checks the parsed options of c, and completes Queue. It waits for a file of rules no
// longer than c.Context().
func (o *Options) Finish(c *cobra.Command) (err error) {
	changed := c.Flags().Changed
	if changed("max-length") && o.Queue.MaxLength < 1 {
		return fmt.Errorf("-l %d: must be at least 1", o.Queue.MaxLength)
	}
	switch {
	case o.events == "all":
		o.Queue.FailedExecs = true
	case changed("events"):
		if o.Queue.Kinds, err = quark.ParseKinds(o.events); err != nil {
			return fmt.Errorf("--events: %w", err)
		}
	}
	switch o.exits {
	case "nonzero":
		o.Queue.Exits = quark.ExitsNonzero
	case "all", "":
	default:
		return fmt.Errorf("--exits %q: must be all or nonzero", o.exits)
	}
	for name, chosen := range o.backends {
		if *chosen {
			set, err := quark.ParseBackend(name)
			if err != nil {
				return err
			}
			o.Queue.Backends |= set
		}
	}
	if o.Queue.Backends == 0 && !o.any && o.live {
		o.Queue.Backends = allFields
	}
	for _, t := range o.filter.terms {
		if changed(t.flag) && len(t.values) == 0 {
			return fmt.Errorf("--%s: the list is empty", t.flag)
		}
	}
	if changed("audit-enable") && o.Queue.Backends&quark.Audit == 0 {
		return errors.New("--audit-enable has an effect only with the backend audit: omit it, or add --audit")
	}
	if o.Queue.Where, err = o.filter.compile(c.Context(), o); err != nil {
		return err
	}
	if !o.live {
		return o.Check()
	}
	o.hidden = hiddenProcesses()
	for _, name := range o.Queue.Where.Variables() {
		if !o.Queue.Environ.Has(name) {
			return fmt.Errorf("environ.%s in a filter: needs --environ %s", name, name)
		}
	}
	if err := checkPaths(o.Queue.Where); err != nil {
		return err
	}
	r := o.reported()
	if r.Kinds &^= quark.EventExecFailed; !changed("events") && o.Queue.Where.Check(r) != nil {
		r.Kinds |= quark.EventExecFailed
		o.Queue.FailedExecs = o.Queue.Where.Check(r) == nil
	}
	return o.Check()
}

// allFields are the backends that report nearly all fields without /proc.
const allFields = quark.EBPF | quark.KProbe

// Open opens a queue on the kernel. Its error names the remedy.
func (o *Options) Open(ctx context.Context) (*quark.Queue, error) {
	q, err := quark.OpenContext(ctx, o.Queue)
	switch failed := new(quark.OpenError); {
	case !errors.As(err, &failed) || o.Queue.Backends != allFields:
		return q, err
	case os.Geteuid() != 0 && errors.Is(failed.Attempts[0].Err, os.ErrPermission):
		return nil, errors.New("not permitted: run it as root, or with CAP_BPF and CAP_PERFMON (-b and -k print the details)")
	}
	return nil, fmt.Errorf("%w; -c uses the proc connector, which reports fewer fields", err)
}

// missingFields returns the names of fields that the backend lacks, and the number of fields that
// it has only from /proc.
func (o *Options) missingFields(table *quark.CapabilityTable) (missing []string, fromProc int) {
	for f, c := range table.Fields {
		switch f := quark.Field(f); {
		case f == quark.FieldEnviron && o.Queue.Environ.Names == nil:
		case c.Origin == quark.OriginNone:
			missing = append(missing, f.String())
		case c.Origin == quark.OriginProc:
			fromProc++
		}
	}
	return missing, fromProc
}

// Describe returns the name of the backend, the kinds of events and fields that it lacks, and the
// reason why no better backend runs.
func (o *Options) Describe(q *quark.Queue) string {
	table := q.Capabilities()
	text := "backend " + q.Backend()
	if table.Types != "" {
		text += ", types from " + table.Types
	}
	for k, c := range table.Kinds {
		kind := quark.Kind(k)
		wanted := o.Queue.Kinds.Has(kind.Events()) || o.Queue.Kinds == 0 && kind != quark.KindExecFailed || o.Queue.FailedExecs && kind == quark.KindExecFailed
		if !o.live || !wanted || c.Origin != quark.OriginNone {
			continue
		}
		if before, same := strings.CutSuffix(text, ": "+c.Via); same {
			text = before + " and " + kind.String()
		} else {
			text += ", no " + kind.String()
		}
		text += ": " + c.Via
	}
	if missing, fromProc := o.missingFields(table); o.live && o.Queue.Kinds == 0 {
		if len(missing) > 0 {
			text += ", no " + strings.Join(missing, ", ")
		}
		if fromProc > 0 {
			text += fmt.Sprintf(", %d fields only from /proc", fromProc)
		}
	}
	if o.hidden != "" {
		text += ", fewer fields of other " + o.hidden
	}
	var why []string
	for _, a := range q.Attempts() {
		why = append(why, a.String())
	}
	if len(why) > 0 {
		text += " (not " + strings.Join(why, "; not ") + ")"
	}
	return text
}

// hiddenProcesses returns whose fields /proc hides, and why, or "".
func hiddenProcesses() string {
	if _, err := os.ReadFile("/proc/1/stat"); err != nil {
		return "processes: /proc hides them (hidepid) without CAP_SYS_PTRACE"
	}
	const ptrace = 1 << 19 // CAP_SYS_PTRACE
	capabilities := ^uint64(0)
	status, _ := os.ReadFile("/proc/self/status")
	_, effective, _ := strings.Cut(string(status), "\nCapEff:")
	if _, err := fmt.Sscanf(effective, "%x", &capabilities); err == nil && capabilities&ptrace == 0 {
		return "users' processes: /proc hides their paths, environments and namespaces without CAP_SYS_PTRACE"
	}
	return ""
}

// reported returns the events that the filter may get. For a recording, they are unknown.
func (o *Options) reported() quark.Reported {
	return quark.Reported{Kinds: cmp.Or(o.Queue.Kinds, ^quark.Events(0)), Threads: o.Queue.Threads || !o.live,
		Nonzero: o.Queue.Exits == quark.ExitsNonzero, MinAgg: o.Queue.MinAgg}
}

// Check returns an error if the filter has a term that is never true, or can never be decided, for
// the reported events.
func (o *Options) Check() error {
	err := o.Queue.Where.Check(o.reported())
	if err == nil {
		return nil
	}
	for _, c := range []struct {
		remedy string
		apply  func(r *quark.Reported)
	}{
		{"add -t", func(r *quark.Reported) { r.Threads = true }},
		{"omit --exits nonzero", func(r *quark.Reported) { r.Nonzero = false }},
		{"omit -g, or choose one", func(r *quark.Reported) { r.MinAgg = false }},
		{"add it to --events, or choose kinds by --filter alone, as in --filter exec", func(r *quark.Reported) { r.Kinds = ^quark.Events(0) }},
	} {
		r := o.reported()
		if c.apply(&r); o.Queue.Where.Check(r) == nil {
			return fmt.Errorf("in a filter %w: %s", err, c.remedy)
		}
	}
	return fmt.Errorf("in a filter %w", err)
}
