package audit

import "github.com/quark-linux/quark/backends/source"

// Options are the options of this source.
type Options = source.AuditOptions

const (
	defaultReceiveBuffer = 64 << 20
	defaultHold          = 50_000_000 // ns that an event waits for records of earlier calls
	leastHold            = 20_000_000
)

// Validate returns a *engine.OptionError if a value cannot be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) (err error) {
	o.ReceiveBuffer, err = source.ReceiveBuffer(o.ReceiveBuffer, defaultReceiveBuffer)
	return err
}
