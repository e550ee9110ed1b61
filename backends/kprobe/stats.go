package kprobe

import (
	"os"

	"github.com/quark-linux/quark/engine"
)

// Stats compares how often each probe was hit with the records that came. What
// is queued or lost counts as produced, though it may be what is not reported,
// such as the new comm of a thread.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.probes == nil {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := engine.SourceStats{Bound: s.blind}
	st.Lost[engine.LossRingFull] = s.lost
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.handed + s.lost + s.decode + uint64(len(s.endings.parked)+len(s.ids.told))
	for _, c := range s.cpus {
		if c.now.set != nil && c.now.have&1 != 0 {
			st.Produced++
		}
		outstanding := c.outstanding()
		st.Produced += outstanding
		switch {
		case c.ring.Pending() == 0:
			st.Lost[engine.LossRingFull] += outstanding
		case c.ring.Size()-c.ring.Pending() < maxRecord:
			st.Bound = true
		}
	}
	return st, nil
}

// outstanding is how many events happened since those that were read.
func (c *cpu) outstanding() (n uint64) {
	counts, together := c.leader.Counts(nil, len(c.events))
	for f, number := range c.first {
		if number == 0 {
			continue
		}
		var count uint64
		if together {
			count = counts[number-1]
		} else {
			count, _ = c.events[number-1].Count()
		}
		if count > c.last[f] {
			n += count - c.last[f]
		}
	}
	return n
}
