package cnproc

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// How much is read from /proc.
const (
	EnrichFull = source.EnrichFull
	EnrichNone = source.EnrichNone
)

// Options are the options of this source.
type Options = source.CNProcOptions

const (
	defaultReceiveBuffer = 16 << 20
	defaultDoubtTime     = 50 * time.Millisecond
	maxDoubtTime         = time.Minute
)

// Validate returns a *engine.OptionError if a value can't be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) (err error) {
	if o.ReceiveBuffer, err = source.ReceiveBuffer(o.ReceiveBuffer, defaultReceiveBuffer); err != nil {
		return err
	}
	if o.DoubtTime < 0 || o.DoubtTime > maxDoubtTime {
		return &engine.OptionError{Option: "DoubtTime", Value: o.DoubtTime,
			Err: fmt.Errorf("it must be from 0 to %v", maxDoubtTime)}
	}
	if o.DoubtTime == 0 {
		o.DoubtTime = defaultDoubtTime
	}
	if o.Enrich > EnrichNone {
		return &engine.OptionError{Option: "Enrich", Value: uint8(o.Enrich),
			Err: fmt.Errorf("it must be EnrichFull (%d) or EnrichNone (%d)", EnrichFull, EnrichNone)}
	}
	return nil
}
