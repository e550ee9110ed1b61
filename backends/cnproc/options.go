package cnproc

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/source"
)

// Enrich says what is read from /proc.
type Enrich uint8

const (
	// EnrichFull reads everything /proc has of a process after its fork and
	// after each exec.
	EnrichFull Enrich = iota
	// EnrichNone reads nothing with events: they carry what the kernel sends.
	// It is for counting. Which threads there are is still looked up in /proc
	// when the source is opened and after a loss, because exits are of threads.
	EnrichNone
)

// Options are those of this source alone. The zero value is right for most.
type Options struct {
	// ReceiveBuffer is the size of the socket's receive buffer in bytes as the
	// kernel accounts it, several hundred for each message. 0 means 16 MiB,
	// some ten thousand messages. Up to 1 GiB. Without CAP_NET_ADMIN the
	// kernel caps it at /proc/sys/net/core/rmem_max. Do not set it, except to
	// provoke loss.
	ReceiveBuffer int

	// Enrich says what is read from /proc: everything by default.
	Enrich Enrich

	// DoubtTime is how long after the reading of a process an event waits for messages
	// that show what was read to be of another time: 0 means 50 ms. It is to be at most a
	// quarter of the engine's HoldTime: quark.Open lowers it by FitHoldTime. Do not set it.
	DoubtTime time.Duration
}

const (
	defaultReceiveBuffer = 16 << 20
	maxReceiveBuffer     = 1 << 30
	defaultDoubtTime     = 50 * time.Millisecond
	maxDoubtTime         = time.Minute
)

// Validate returns a *source.OptionError if a value can't be used.
func (o Options) Validate() error { return o.setDefaults() }

func (o *Options) setDefaults() error {
	if o.ReceiveBuffer < 0 || o.ReceiveBuffer > maxReceiveBuffer {
		return &source.OptionError{Option: "ReceiveBuffer", Value: o.ReceiveBuffer,
			Err: fmt.Errorf("it must be from 0 to %d bytes", maxReceiveBuffer)}
	}
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = defaultReceiveBuffer
	}
	if o.DoubtTime < 0 || o.DoubtTime > maxDoubtTime {
		return &source.OptionError{Option: "DoubtTime", Value: o.DoubtTime,
			Err: fmt.Errorf("it must be from 0 to %v", maxDoubtTime)}
	}
	if o.DoubtTime == 0 {
		o.DoubtTime = defaultDoubtTime
	}
	if o.Enrich > EnrichNone {
		return &source.OptionError{Option: "Enrich", Value: uint8(o.Enrich),
			Err: fmt.Errorf("it must be EnrichFull (%d) or EnrichNone (%d)", EnrichFull, EnrichNone)}
	}
	return nil
}

// FitHoldTime lowers DoubtTime to what suits an engine with this HoldTime: an event is to
// come in time to be put in order.
func (o *Options) FitHoldTime(hold time.Duration) {
	o.DoubtTime = min(cmp.Or(o.DoubtTime, defaultDoubtTime), max(hold/4, 1))
}
