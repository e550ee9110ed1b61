package backends

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/kprobe"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Set is a set of backends.
type Set uint8

const (
	EBPF   Set = 1 << iota // raw tracepoints and CO-RE programs
	KProbe                 // tracefs probes and perf rings
	CNProc                 // the proc connector

	All = EBPF | KProbe | CNProc
)

// Options say which backends may be tried and with which options. The zero value tries all with
// their defaults.
type Options struct {
	// Allowed are the backends that may be tried; 0 means all.
	Allowed Set

	// Strict fails when the first allowed backend can't be opened, instead of
	// trying the next.
	Strict bool

	// Shared are the options of all backends; the others are for one backend each.
	Shared source.Options
	EBPF   ebpf.Options
	KProbe kprobe.Options
	CNProc cnproc.Options
}

// Attempt is a backend that could not be opened, and why.
type Attempt struct {
	Backend string
	Err     error
}

func (a Attempt) String() string { return a.Backend + ": " + a.Err.Error() }

// entry describes a backend.
type entry struct {
	bit     Set
	name    string
	options string // the member of Options for this backend
	check   func(*Options) error
	open    func(*Options) (engine.Source, error)
}

// order lists the backends in the order in which Open tries them.
var order = []entry{
	{EBPF, "ebpf", "EBPF",
		func(o *Options) error { return o.EBPF.Validate() },
		func(o *Options) (engine.Source, error) { return opened(ebpf.Open(o.Shared, o.EBPF)) }},
	{KProbe, "kprobe", "KProbe",
		func(o *Options) error { return o.KProbe.Validate() },
		func(o *Options) (engine.Source, error) { return opened(kprobe.Open(o.Shared, o.KProbe)) }},
	{CNProc, "cnproc", "CNProc",
		func(o *Options) error { return o.CNProc.Validate() },
		func(o *Options) (engine.Source, error) { return opened(cnproc.Open(o.Shared, o.CNProc)) }},
}

// opened returns a nil Source on an error. Converting a nil *S would make a Source that is not nil.
func opened[S engine.Source](s S, err error) (engine.Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Names returns the names of the members of s in the order of preference.
func (s Set) Names() (names []string) {
	for _, e := range order {
		if s&e.bit != 0 {
			names = append(names, e.name)
		}
	}
	return names
}

func (s Set) String() string { return strings.Join(s.Names(), ",") }

// Parse returns the set of the backend with that name.
func Parse(name string) (Set, error) {
	for _, e := range order {
		if e.name == name {
			return e.bit, nil
		}
	}
	return 0, fmt.Errorf("unknown backend %q: it is one of %s", name, All)
}

// Open opens the first of the allowed backends that this kernel and these
// privileges admit. The attempts are those before it. The error is an *Error, or a
// *source.OptionError if an option has a wrong value, be it one of a backend that would not
// be tried; it is errors.ErrUnsupported in a pid, user or time namespace that is not the host's.
func Open(opts Options) (engine.Source, []Attempt, error) {
	if err := opts.validate(); err != nil {
		return nil, nil, err
	}
	if err := checkNamespaces(); err != nil {
		return nil, nil, err
	}
	var failed []Attempt
	for _, e := range order {
		if opts.Allowed&e.bit == 0 && opts.Allowed != 0 {
			continue
		}
		s, err := e.open(&opts)
		if err == nil {
			return s, failed, nil
		}
		if wrong := new(source.OptionError); errors.As(err, &wrong) {
			return nil, failed, err
		}
		failed = append(failed, Attempt{e.name, err})
		if opts.Strict {
			break
		}
	}
	return nil, failed, &Error{failed}
}

// validate checks the options of all backends, allowed or not.
func (o *Options) validate() error {
	if extra := o.Allowed &^ All; extra != 0 {
		return &source.OptionError{Option: "Backends", Value: fmt.Sprintf("%#x", uint8(o.Allowed)), Err: fmt.Errorf("it must be a set of %s", All)}
	}
	if err := o.Shared.Validate(); err != nil {
		return err
	}
	for _, e := range order {
		if err := e.check(o); err != nil {
			if wrong := new(source.OptionError); errors.As(err, &wrong) {
				wrong.Option = e.options + "." + wrong.Option
			}
			return err
		}
	}
	return nil
}

// Error is the error of Open when no backend could be opened, with the reason for each.
type Error struct{ Attempts []Attempt }

func (e *Error) Error() string {
	var why []string
	for _, a := range e.Attempts {
		why = append(why, a.String())
	}
	return "no backend can be used: " + strings.Join(why, "; ")
}

// Unwrap returns the reasons for errors.Is and errors.As.
func (e *Error) Unwrap() (errs []error) {
	for _, a := range e.Attempts {
		errs = append(errs, a.Err)
	}
	return errs
}
