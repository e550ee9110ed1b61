package engine

import "fmt"

// Stats are the counters of a queue since it was opened. Gaps are no events, and are not
// counted.
type Stats struct {
	Insertions         uint64 // raw events that came in
	Removals           uint64 // raw events that went out
	Aggregations       uint64 // delivered events that had absorbed others
	NonAggregations    uint64 // delivered events that had not
	GarbageCollections uint64 // processes forgotten after their grace time
	Late               uint64 // events delivered after a younger one, also gaps: see MaxLength
	Filtered           uint64 // events that a filter left out
	Unsure             uint64 // delivered events that a filter could not decide
	Buffered           int    // raw events waiting
	Processes          int    // processes in the table

	Backend string // the active source
	Types   string // where it has the kernel's types from, see CapabilityTable
	Source  SourceStats
}

// Lost is the number of events known to be lost, over all causes.
func (s *Stats) Lost() uint64 { return s.Source.LostTotal() }

// Stats returns the counters. It asks the source, which may cost a system
// call: once a second is fine, once an event is not.
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
