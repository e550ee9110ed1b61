package engine

import (
	"errors"
	"fmt"
	"time"
)

// Options say how an engine behaves. The zero value is right for most: each
// member's zero is its default.
type Options struct {
	MaxLength int // raw events buffered at most; default 10000
	// HoldTime is how long an event waits for earlier and for joining ones; default 1 s.
	HoldTime time.Duration
	// CacheGraceTime is how long a process stays in the table after its end, by the clock and
	// by the times of the events that are to come; default 4 s.
	CacheGraceTime time.Duration

	// MinAgg selects [MinimalMatrix]. Else Matrix is the rule of aggregation; nil is
	// [DefaultMatrix].
	MinAgg bool
	Matrix *Matrix

	// Look, if not nil, looks whether a process exists; start is its start time in
	// CLOCK_BOOTTIME nanoseconds, rounded down to ProcStartUnit. It is asked only after
	// events were lost, a few times a call of Get. Without it, an event that does not
	// bring a start time is of an unknown process then, and ends that were lost show
	// only when their pids are used again.
	Look func(pid uint32) (start uint64, sight Sight)

	// Filter, if not nil, decides whether an event is delivered. It is asked
	// after the process table has been brought up to date. Gaps are always delivered.
	Filter func(*Event) bool

	// Judge, if not nil, decides the same, and is asked before Filter: of all events but gaps,
	// and before the first one of each process that was learned, as an event without a kind,
	// of parents before their children. It may change the Marks of the event's process, which
	// those inherit that the process then makes; of an event of a thread they are not kept.
	Judge func(*Event) Verdict

	// Tags are the names of the bits of Marks, for [Process.Tags]. A bit with the name "" is no
	// tag.
	Tags []string

	// Record, if not nil, gets all that the engine takes in.
	Record Recorder

	// FollowClock, if not nil, is called before each reading of the source, to bring the
	// engine's Clock up to date.
	FollowClock func()
}

// Defaults and limits of Options.
const (
	DefaultMaxLength      = 10000
	MaxMaxLength          = 1 << 24
	DefaultHoldTime       = time.Second
	MinHoldTime           = 10 * time.Millisecond
	MaxHoldTime           = time.Hour
	DefaultCacheGraceTime = 4 * time.Second
	MaxCacheGraceTime     = 24 * time.Hour
)

// Check returns an error that names the option with an invalid value, and its range, or nil.
func (o Options) Check() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults returns o with the zero members filled in, or an error that
// names the option and its range.
func (o Options) withDefaults() (Options, error) {
	if o.MaxLength == 0 {
		o.MaxLength = DefaultMaxLength
	}
	if o.HoldTime == 0 {
		o.HoldTime = DefaultHoldTime
	}
	if o.CacheGraceTime == 0 {
		o.CacheGraceTime = DefaultCacheGraceTime
	}
	outside := func(option string, value, least, most any) (Options, error) {
		return o, &OptionError{option, value, fmt.Errorf("it must be from %v to %v", least, most)}
	}
	switch {
	case o.MaxLength < 1 || o.MaxLength > MaxMaxLength:
		return outside("MaxLength", o.MaxLength, 1, MaxMaxLength)
	case o.HoldTime < MinHoldTime || o.HoldTime > MaxHoldTime:
		return outside("HoldTime", o.HoldTime, MinHoldTime, MaxHoldTime)
	case o.CacheGraceTime < 0 || o.CacheGraceTime > MaxCacheGraceTime:
		return outside("CacheGraceTime", o.CacheGraceTime, 0, MaxCacheGraceTime)
	case o.MinAgg && o.Matrix != nil:
		return o, &OptionError{"MinAgg", true, errors.New("it excludes the option Matrix")}
	case o.Matrix != nil:
		if err := o.Matrix.check(); err != nil {
			return o, &OptionError{"Matrix", "not usable", err}
		}
	}
	if o.Matrix == nil {
		o.Matrix = DefaultMatrix()
		if o.MinAgg {
			o.Matrix = MinimalMatrix()
		}
	}
	return o, nil
}

// OptionError names an option with an invalid value. It is the caller's mistake and no property of
// the kernel: another source is not tried instead.
type OptionError struct {
	Option string
	Value  any
	Err    error // the problem, and for a number its range
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s is %v: %v", e.Option, e.Value, e.Err)
}

// Unwrap returns the reason.
func (e *OptionError) Unwrap() error { return e.Err }
