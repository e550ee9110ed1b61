package procpoll

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Options are those of this source alone.
type Options = source.ProcPollOptions

const (
	defaultInterval = 100 * time.Millisecond
	minInterval     = time.Millisecond
	maxInterval     = time.Hour
)

// Validate returns a *engine.OptionError if a value can't be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) error {
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Interval < minInterval || o.Interval > maxInterval {
		return &engine.OptionError{Option: "Interval", Value: o.Interval, Err: fmt.Errorf("it must be from %v to %v", minInterval, maxInterval)}
	}
	return nil
}
