package audit

import (
	"fmt"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Options are those of this source alone.
type Options = source.AuditOptions

const (
	defaultReceiveBuffer = 64 << 20
	maxReceiveBuffer     = 1 << 30
)

// Validate returns a *engine.OptionError if a value can't be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) error {
	if o.ReceiveBuffer < 0 || o.ReceiveBuffer > maxReceiveBuffer {
		return &engine.OptionError{Option: "ReceiveBuffer", Value: o.ReceiveBuffer,
			Err: fmt.Errorf("it must be from 0 to %d bytes", maxReceiveBuffer)}
	}
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = defaultReceiveBuffer
	}
	return nil
}
