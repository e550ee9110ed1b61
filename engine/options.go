package engine

import (
	"errors"
	"fmt"
	"time"
)

// Options control an engine. The zero value of each member is its default, right for most uses.
type Options struct {
	MaxLength int // maximum number of buffered raw events; default 10000
	// HoldTime is how long an event waits for earlier events and for events to join; default 1
	// s.
	HoldTime time.Duration
	// CacheGraceTime is how long a process stays in the table after its end, measured both by
	// the clock and by the times of later events; default 4 s.
	CacheGraceTime time.Duration

	// MinAgg selects [MinimalMatrix]. Else Matrix has the rules of aggregation; nil is
	// [DefaultMatrix].
	MinAgg bool
	Matrix *Matrix

	// CheckPID, if not nil, checks whether a process exists. start is its start time in
	// CLOCK_BOOTTIME nanoseconds, rounded down to ProcStartUnit. The engine calls CheckPID only
	// after a loss of events, a few times per call of Get. Without CheckPID, an event without a
	// start time belongs to an unknown process after a loss, and a lost EXIT is detected only
	// when the pid is reused.
	CheckPID func(pid uint32) (start uint64, state PIDState)

	// Filter, if not nil, decides whether an event is delivered. It is called after the update
	// of the process table. Gaps are always delivered.
	Filter func(*Event) bool

	// Judge, if not nil, also decides whether an event is delivered. It is called before
	// Filter, for all events but gaps, and with an event without a kind for each learned
	// process, parents before children. It may change the Marks of the event's process, which
	// later children inherit. Marks in the event of a thread are not kept.
	Judge func(*Event) Verdict

	// Tags are the names of the bits of Marks, for [Process.Tags]. A bit with the name "" is no
	// tag.
	Tags []string

	// Record, if not nil, gets all input of the engine.
	Record Recorder

	// FollowClock, if not nil, is called before each read of the source, to update the engine's
	// Clock.
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

// OptionError names an option with an invalid value. The mistake is the caller's, not a property of
// the kernel: no other source is tried.
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
