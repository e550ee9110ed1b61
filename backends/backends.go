package backends

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/kprobe"
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

// Options say which backends may be tried and how they are opened. The zero
// value tries all with their defaults.
type Options struct {
	// Allowed are the backends that may be tried; 0 means all.
	Allowed Set

	// Strict fails when the first allowed backend can't be opened, instead of
	// trying the next.
	Strict bool

	EBPF   ebpf.Options
	KProbe kprobe.Options
	CNProc cnproc.Options
}

// Attempt is a backend that was tried and could not be opened.
type Attempt struct {
	Backend string
	Err     error
}

func (a Attempt) String() string { return a.Backend + ": " + a.Err.Error() }

// entry is a backend in the order of preference.
type entry struct {
	bit  Set
	name string
	open func(*Options) (engine.Source, error)
}

var order = []entry{
	{EBPF, "ebpf", func(o *Options) (engine.Source, error) { return source(ebpf.Open(o.EBPF)) }},
	{KProbe, "kprobe", func(o *Options) (engine.Source, error) { return source(kprobe.Open(o.KProbe)) }},
	{CNProc, "cnproc", func(o *Options) (engine.Source, error) { return source(cnproc.Open(o.CNProc)) }},
}

// source keeps a nil pointer from becoming a Source that is not nil.
func source[S engine.Source](s S, err error) (engine.Source, error) {
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

// Parse returns the set of one name.
func Parse(name string) (Set, error) {
	for _, e := range order {
		if e.name == name {
			return e.bit, nil
		}
	}
	return 0, fmt.Errorf("unknown backend %q: it is one of %s", name, All)
}

// Open opens the first of the allowed backends that this kernel and these
// privileges admit. The attempts are those before it. The error is an *Error.
func Open(opts Options) (engine.Source, []Attempt, error) {
	if opts.Allowed == 0 {
		opts.Allowed = All
	}
	if extra := opts.Allowed &^ All; extra != 0 {
		return nil, nil, fmt.Errorf("option Backends is %#x: it must be a set of %s", uint8(opts.Allowed), All)
	}
	var failed []Attempt
	for _, e := range order {
		if opts.Allowed&e.bit == 0 {
			continue
		}
		s, err := e.open(&opts)
		if err == nil {
			return s, failed, nil
		}
		failed = append(failed, Attempt{e.name, err})
		if opts.Strict {
			break
		}
	}
	return nil, failed, &Error{failed}
}

// Error says why no backend could be opened.
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

// Scan reads the processes that exist from /proc and calls f with each, parents not
// necessarily before their children. The event is f's until it returns.
func Scan(f func(*engine.RawEvent) error) error {
	proc, err := procfs.Open()
	if err != nil {
		return err
	}
	return errors.Join(proc.Scan(f), proc.Close())
}
