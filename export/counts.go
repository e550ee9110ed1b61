package export

import (
	"maps"
	"slices"
)

// Counts are the numbers of events that were passed to an exporter: Taken = Delivered + Queued +
// the sum of Dropped.
type Counts struct {
	Taken     uint64
	Delivered uint64 // acknowledged by the target, if it acknowledges
	Queued    uint64 // taken but not delivered yet
	// Dropped maps each cause of the exporter to its number of dropped events, which may be 0.
	Dropped map[string]uint64
}

// Lost is the sum of Dropped.
func (c *Counts) Lost() (n uint64) {
	for _, d := range c.Dropped {
		n += d
	}
	return n
}

// Causes returns the keys of Dropped in order.
func (c *Counts) Causes() []string { return slices.Sorted(maps.Keys(c.Dropped)) }

// Counter is an exporter. Both methods may be called from any goroutine.
type Counter interface {
	Name() string // kind of target, such as "otlp"
	Counts() Counts
}
