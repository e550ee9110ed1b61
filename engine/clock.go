package engine

import (
	"slices"
	"sync/atomic"
	"time"
)

// Clock converts event times, CLOCK_MONOTONIC nanoseconds, to boot time and wall time. Its methods
// may be called from any goroutine. The zero value has no offset: its wall time begins at the zero
// [time.Time].
type Clock struct {
	// Now returns CLOCK_MONOTONIC nanoseconds.
	Now func() uint64

	// Host is the machine and the boot of the events.
	Host Host

	offsets atomic.Pointer[[]Offset] // by From; replaced as a whole
}

// Offset relates the kernel's clocks for events from From on, until the next Offset. Suspend
// changes Boot; settimeofday(2) and the slewing of NTP change Wall.
type Offset struct {
	// From is the first event time of this offset, CLOCK_MONOTONIC nanoseconds.
	From uint64

	// Boot is CLOCK_BOOTTIME minus CLOCK_MONOTONIC in nanoseconds: the time spent suspended.
	Boot uint64

	// Wall is the wall time at which CLOCK_MONOTONIC was zero.
	Wall time.Time

	// WallError bounds the error of Wall at the moment of measuring.
	WallError time.Duration
}

// At returns the wall time of a CLOCK_MONOTONIC time.
func (o Offset) At(mono uint64) time.Time { return o.Wall.Add(time.Duration(mono)) }

// BootAt returns the wall time of a CLOCK_BOOTTIME time such as Task.Start.
func (o Offset) BootAt(boot uint64) time.Time {
	return o.Wall.Add(time.Duration(boot) - time.Duration(o.Boot))
}

// NewClock returns a clock whose first offset is o. It ignores o.From.
func NewClock(now func() uint64, host Host, o Offset) *Clock {
	c := &Clock{Now: now, Host: host}
	c.offsets.Store(&[]Offset{o})
	return c
}

// maxOffsets bounds the offsets that a clock keeps: the oldest is dropped. A clock that NTP slews
// for hours adds many.
const maxOffsets = 256

// Add adds the offset of events from o.From on. The caller adds offsets in order of From.
func (c *Clock) Add(o Offset) {
	var kept []Offset
	if list := c.offsets.Load(); list != nil {
		kept = *list
	}
	kept = append(slices.Clone(kept[max(0, len(kept)+1-maxOffsets):]), o)
	c.offsets.Store(&kept)
}

// Newest returns the offset that was added last.
func (c *Clock) Newest() Offset {
	list := c.offsets.Load()
	if list == nil {
		return Offset{}
	}
	return (*list)[len(*list)-1]
}

// Offset returns the offset at a CLOCK_MONOTONIC time. Earlier times have the oldest offset.
func (c *Clock) Offset(mono uint64) Offset {
	return c.search(func(o *Offset) bool { return o.From <= mono })
}

// search returns the newest offset for which holds is true, or the oldest offset. Nearly all
// searches end at once.
func (c *Clock) search(holds func(*Offset) bool) Offset {
	list := c.offsets.Load()
	if list == nil {
		return Offset{}
	}
	i := len(*list) - 1
	for i > 0 && !holds(&(*list)[i]) {
		i--
	}
	return (*list)[i]
}

// Started returns the wall time of the start of p, by the offset at p.AsOf. All wall times of one
// event use one offset, so no process starts after its end. Task.Start must be known.
func (c *Clock) Started(p *Process) time.Time { return c.Offset(p.AsOf()).BootAt(p.Start) }

// At returns the wall time of a CLOCK_MONOTONIC time.
func (c *Clock) At(mono uint64) time.Time { return c.Offset(mono).At(mono) }

// Boot returns the CLOCK_BOOTTIME time of a CLOCK_MONOTONIC time.
func (c *Clock) Boot(mono uint64) uint64 { return mono + c.Offset(mono).Boot }

// Mono returns the CLOCK_MONOTONIC time of a CLOCK_BOOTTIME time such as Task.Start.
func (c *Clock) Mono(boot uint64) uint64 {
	o := c.search(func(o *Offset) bool { return o.From+o.Boot <= boot })
	return boot - min(o.Boot, boot)
}
