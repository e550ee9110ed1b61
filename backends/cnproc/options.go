package cnproc

import (
	"fmt"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Options are the options of this source.
type Options = source.CNProcOptions

const defaultReceiveBuffer = 16 << 20

// Validate returns a *engine.OptionError if a value cannot be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) (err error) {
	if o.ReceiveBuffer, err = source.ReceiveBuffer(o.ReceiveBuffer, defaultReceiveBuffer); err != nil {
		return err
	}
	if o.Enrich > source.EnrichNone {
		return &engine.OptionError{Option: "Enrich", Value: uint8(o.Enrich),
			Err: fmt.Errorf("it must be EnrichFull (%d) or EnrichNone (%d)", source.EnrichFull, source.EnrichNone)}
	}
	return nil
}
