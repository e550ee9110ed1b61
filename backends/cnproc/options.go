package cnproc

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
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

	// Filter is the set of kinds that are delivered, 0 for all. Linux 6.6 and
	// later drop the others before they reach the socket, as far as this source
	// does not need them itself: forks, execs and exits of threads decide when
	// a process ended, and with EnrichFull later changes decide whether what
	// was read still belongs to an event. So a narrow filter is cheap with
	// EnrichNone and without exits.
	// NonzeroExit without Exit delivers the exits whose status is not known to be 0.
	Filter What

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
	if unknown := o.Filter &^ (allKinds | NonzeroExit); unknown != 0 {
		return &source.OptionError{Option: "Filter", Value: fmt.Sprintf("%#x", uint32(o.Filter)),
			Err: fmt.Errorf("%#x is no kind of event: it must be a union of the constants of type What", uint32(unknown))}
	}
	if o.Filter == 0 {
		o.Filter = allKinds
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

// kernelFilter is the set of kinds that the source needs to see.
func (o *Options) kernelFilter() What {
	need := o.Filter &^ NonzeroExit
	if o.Filter&(Exit|NonzeroExit|CoreDump) != 0 {
		// A process has ended when its last thread has; exec leaves one thread. Its status
		// says whether it dumped core.
		need |= Fork | Exec | Exit
	}
	if o.Enrich == EnrichFull && need&(Fork|Exec) != 0 {
		need |= Fork | Exec | UID | GID | SID | Comm
	}
	return need
}

// wants is the check in user space, which holds with any kernel.
func (o *Options) wants(w What) bool { return o.Filter&w != 0 }

// wantsFact reports whether the event of a fact is delivered.
func (o *Options) wantsFact(f *fact, threads bool) bool {
	switch {
	case f.thread && !threads:
		return false
	case f.kind == engine.KindCoreDump:
		return o.wants(CoreDump)
	case f.kind == engine.KindExit:
		return o.wants(Exit) || !f.thread && o.wants(NonzeroExit) && (!f.known || f.status != 0)
	}
	return o.wants(f.m.what)
}
