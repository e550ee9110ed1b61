package kprobe

import (
	"os"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
)

// Stats says how many events there were and how many are lost. What is queued
// or lost counts as produced, though it may be what is not reported, such as the
// new comm of a thread.
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
		if !c.mayLack() {
			st.Produced += s.queued(c)
			continue
		}
		outstanding := c.outstanding()
		st.Produced += outstanding
		switch {
		case c.ring.Pending() == 0:
			st.Lost[engine.LossRingFull] += outstanding
			c.lacks = outstanding > 0
		case c.nearlyFull():
			st.Bound = true
		}
	}
	return st, nil
}

// nearlyFull tells that the longest record, with what perf adds to it, may have
// found no room.
func (c *cpu) nearlyFull() bool { return c.ring.Size()-c.ring.Pending() <= 2*maxRecord }

// mayLack tells whether records may be missing that none of those queued or read
// tell of. Between two readings the ring only fills: while it never was nearly
// full all is there. Else the counts tell, for which the kernel has to interrupt
// the CPU.
func (c *cpu) mayLack() bool {
	c.lacks = c.lacks || c.nearlyFull()
	return c.lacks
}

// queued is how many events wait in a ring.
func (s *Source) queued(c *cpu) (n uint64) {
	for ahead := c.ring.Ahead(); ; {
		rec, ok, _ := ahead.Next()
		if !ok {
			return n
		}
		if p := s.probeOf(rec); p != nil && p.part == 1 {
			n++
		}
	}
}

// probeOf returns the probe that made a record, nil for a bell and for what makes
// no sense.
func (s *Source) probeOf(rec perf.Record) *probe {
	var sample perf.Sample
	if rec.Type != perf.RecordSample || sample.ParseSample(rec.Body) != nil {
		return nil
	}
	return s.probe(sample.Raw)
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
