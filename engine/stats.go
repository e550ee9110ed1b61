package engine

import "fmt"

// Stats are the counters of a queue since it was opened. Gaps are not counted as events.
type Stats struct {
	Insertions         uint64 // raw events that came in
	Removals           uint64 // raw events that went out
	Aggregations       uint64 // delivered events that had absorbed others
	NonAggregations    uint64 // all other delivered events
	GarbageCollections uint64 // processes removed after their grace time
	Late               uint64 // events and gaps delivered after a younger event: see MaxLength
	Filtered           uint64 // events that a filter dropped
	Unsure             uint64 // delivered events that a filter could not decide
	Buffered           int    // raw events waiting
	Processes          int    // processes in the table

	Backend string // the active source
	Types   string // the origin of the kernel's types, see CapabilityTable
	Source  SourceStats
}

// Lost returns the number of events known to be lost, over all causes.
func (s *Stats) Lost() uint64 { return s.Source.LostTotal() }

// Stats returns the counters. The source's counters may cost a system call: call Stats once a
// second, not once per event.
func (e *Engine) Stats() (Stats, error) {
	s := Stats{
		Insertions:         e.buffer.insertions,
		Removals:           e.buffer.removals,
		Aggregations:       e.aggregations,
		NonAggregations:    e.nonAggregations,
		GarbageCollections: e.table.collected,
		Late:               e.late,
		Filtered:           e.filtered,
		Unsure:             e.unsure,
		Buffered:           e.Buffered(),
		Processes:          e.table.count,
		Backend:            e.source.Name(),
		Types:              e.source.Capabilities().Types,
	}
	var err error
	if s.Source, err = e.source.Stats(); err != nil {
		return s, fmt.Errorf("read statistics of %s: %w", e.source.Name(), err)
	}
	return s, nil
}
