package fuzz

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sample is the resource usage of the resident monitor at one time, by name. Memory is in bytes.
type Sample struct {
	After  time.Duration // since the start of the run
	Values map[string]int64
}

func (s *Sample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.0f s: resident monitor:", s.After.Seconds())
	for i, name := range slices.Sorted(maps.Keys(s.Values)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s %d", name, s.Values[name])
	}
	return b.String()
}

// Names of values. The name of a backend follows tableOf.
const (
	memory      = "anonymous memory"
	descriptors = "descriptors"
	goroutines  = "goroutines"
	tableOf     = "ended processes in the table of "
)

const (
	memoryLimit = 8 << 20 // bytes; the Go heap keeps some pages after a burst
	tableLimit  = 256     // processes of a busy machine that ended just before the sample
)

// fewest is the minimum number of samples for Grown: two for each quarter.
const fewest = 8

func limit(name string) int64 {
	switch name {
	case memory:
		return memoryLimit
	case descriptors, goroutines:
		return 0
	}
	return tableLimit
}

// Grown returns a line for each value that has grown: its minimum in the last quarter of the
// samples exceeds its minimum in the second quarter by more than its limit. The first quarter does
// not count, as buffers and caches grow then. Grown needs at least eight samples.
func Grown(samples []Sample) (grown []string) {
	n := len(samples)
	if n < fewest {
		return nil
	}
	for name := range samples[0].Values {
		least := func(some []Sample) int64 {
			return slices.MinFunc(some, func(a, b Sample) int { return int(a.Values[name] - b.Values[name]) }).Values[name]
		}
		before, after := least(samples[n/4:n/2]), least(samples[n-n/4:])
		if after-before > limit(name) {
			grown = append(grown, fmt.Sprintf("%s: grew from %d to %d", name, before, after))
		}
	}
	slices.Sort(grown)
	return grown
}
