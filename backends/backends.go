package backends

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Set is a set of backends.
type Set uint16

const (
	EBPF   Set = 1 << 0 // raw tracepoints and CO-RE programs
	KProbe Set = 1 << 1 // tracefs probes and perf rings
	CNProc Set = 1 << 2 // the proc connector

	Audit Set = 1 << 4 // records of the kernel's audit subsystem

	// All are the backends that Open tries by default.
	All = EBPF | KProbe | CNProc
	// Every has all backends.
	Every = All | Audit
)

// Options choose the backends that Open may try, and set their options. The zero value tries the
// backends of All with default options.
type Options struct {
	// Allowed are the backends that may be tried; 0 means All.
	Allowed Set

	// Strict makes Open fail if the first allowed backend cannot be opened. Otherwise Open
	// tries the next backend.
	Strict bool

	// Shared are the options of all backends. Each of the other options is for one backend.
	Shared source.Options
	EBPF   source.EBPFOptions
	KProbe source.KProbeOptions
	CNProc source.CNProcOptions
	Audit  source.AuditOptions
}

// Attempt is a backend that could not be opened, and the reason.
type Attempt struct {
	Backend string
	Err     error
}

func (a Attempt) String() string { return a.Backend + ": " + a.Err.Error() }

// names lists the backends in the order in which Open tries them.
var names = [...]struct {
	backend Set
	name    string
}{
	{EBPF, "ebpf"},
	{KProbe, "kprobe"},
	{CNProc, "cnproc"},
	{Audit, "audit"},
}

// withThreads are the backends that can report single threads.
const withThreads = EBPF | KProbe | CNProc

// ReportsThreads reports whether the named backend can report single threads.
func ReportsThreads(name string) bool {
	set, err := Parse(name)
	return err == nil && set&withThreads != 0
}

// backend is an implementation for this operating system.
type backend struct {
	options string // the member of Options for this backend
	check   func(*Options) error
	open    func(*Options) (engine.Source, error)
}

// Proc reads /proc for a queue, in addition to the backend. It still works after this process drops
// privileges or changes its root.
type Proc interface {
	// Scan reads the existing processes and calls f with each. A parent may come after its
	// child. The event is valid until f returns.
	Scan(f func(*engine.RawEvent) error) error

	// CheckPID checks whether a process exists, for [engine.Options].CheckPID. A zombie counts
	// as gone.
	CheckPID(pid uint32) (start uint64, state engine.PIDState)

	// Blocked returns how many processes could not be read in time, see [engine.SourceStats].
	Blocked() uint64

	// Close closes /proc.
	Close() error
}

// Names returns the names of the members of s in the order of preference.
func (s Set) Names() (members []string) {
	for _, n := range names {
		if s&n.backend != 0 {
			members = append(members, n.name)
		}
	}
	return members
}

func (s Set) String() string { return strings.Join(s.Names(), ",") }

// Parse returns the set with the named backend.
func Parse(name string) (Set, error) {
	for _, n := range names {
		if n.name == name {
			return n.backend, nil
		}
	}
	return 0, fmt.Errorf("unknown backend %q: must be one of %s", name, Every)
}

// Open opens the first allowed backend that the kernel and the process's privileges support. The
// attempts list the backends that failed before it. The error is an *Error, or an
// *engine.OptionError if any option has a wrong value. It is errors.ErrUnsupported on systems other
// than Linux on amd64 and arm64, and in a pid, user or time namespace other than the host's.
func Open(opts Options) (engine.Source, []Attempt, error) {
	if err := opts.Validate(); err != nil {
		return nil, nil, err
	}
	if err := checkSystem(); err != nil {
		return nil, nil, err
	}
	sweep()
	var failed []Attempt
	for _, n := range names {
		if n.backend&cmp.Or(opts.Allowed, All) == 0 {
			continue
		}
		s, err := backends[n.backend].open(&opts)
		if err == nil {
			return s, failed, nil
		}
		if wrong := new(engine.OptionError); errors.As(err, &wrong) {
			return nil, failed, err
		}
		if hidden := kernelversion.Hidden(); hidden != nil && n.backend&(EBPF|KProbe) != 0 {
			err = hidden // instead of the backend's error
		}
		failed = append(failed, Attempt{n.name, err})
		if opts.Strict {
			break
		}
	}
	return nil, failed, &Error{failed}
}

// Validate returns an *engine.OptionError if an option has a wrong value, even an option of a
// backend that is not allowed.
func (o *Options) Validate() error {
	if extra := o.Allowed &^ Every; extra != 0 {
		return &engine.OptionError{Option: "Backends", Value: fmt.Sprintf("%#x", uint16(o.Allowed)), Err: fmt.Errorf("it must be a set of %s", Every)}
	}
	if err := o.Shared.Validate(); err != nil {
		return err
	}
	for _, n := range names {
		b, ok := backends[n.backend]
		if !ok {
			continue // this system has no backends
		}
		if err := b.check(o); err != nil {
			if wrong := new(engine.OptionError); errors.As(err, &wrong) {
				wrong.Option = b.options + "." + wrong.Option
			}
			return err
		}
	}
	return nil
}

// Error is the error of Open if no backend could be opened, with the reason for each.
type Error struct{ Attempts []Attempt }

func (e *Error) Error() string {
	var why []string
	for _, a := range e.Attempts {
		why = append(why, a.String())
	}
	return "no backend can be used: " + strings.Join(why, "; ")
}

// Unwrap returns the reason of each attempt, for errors.Is and errors.As.
func (e *Error) Unwrap() (errs []error) {
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}
