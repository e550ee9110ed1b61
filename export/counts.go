package export

import (
	"maps"
	"slices"
)

// Counts account for the events that an exporter was given: Taken = Delivered + Queued + the sum
// of Dropped.
type Counts struct {
	Taken     uint64
	Delivered uint64 // the target has said so, or none that says so is there
	Queued    uint64 // taken and not delivered yet
	// Dropped are those that are given up, by cause. All causes that the exporter has are
	// there, with 0 too.
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
	Name() string // of the kind of target, such as "otlp"
	Counts() Counts
}
