package taskstats

import "github.com/quark-linux/quark/backends/source"

// Options are those of this source alone.
type Options = source.TaskstatsOptions

const defaultReceiveBuffer = 16 << 20

// Validate returns a *engine.OptionError if a value can't be used.
func Validate(o Options) error { return setDefaults(&o) }

func setDefaults(o *Options) (err error) {
	o.ReceiveBuffer, err = source.ReceiveBuffer(o.ReceiveBuffer, defaultReceiveBuffer)
	return err
}
