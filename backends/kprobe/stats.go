package kprobe

import (
	"os"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
)

// Stats returns how many events were produced and lost. Queued and lost samples count as
// produced, even if no event would have been made of them, such as of the new comm of a thread.
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
		if !c.mayHaveLost() {
			st.Produced += s.queued(c)
			continue
		}
		outstanding := c.outstanding()
		st.Produced += outstanding
		switch {
		case c.ring.Pending() == 0:
			st.Lost[engine.LossRingFull] += outstanding
			c.incomplete = outstanding > 0
		case c.nearlyFull():
			st.Bound = true
		}
	}
	return st, nil
}

// nearlyFull reports whether the longest record, with what perf adds to it, may have found no
// room.
func (c *cpu) nearlyFull() bool { return c.ring.Size()-c.ring.Pending() <= 2*maxRecord }

// mayHaveLost reports whether the ring may have dropped samples that no later sample shows by its
// count. Only a ring that was nearly full can have, and between two readings it only fills. If so,
// the events' counters have to be read, for which the kernel interrupts the CPU.
func (c *cpu) mayHaveLost() bool {
	c.incomplete = c.incomplete || c.nearlyFull()
	return c.incomplete
}

// queued returns how many events wait in a ring.
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

// probeOf returns the probe that made a record, nil for a wakeup record and for one that can't be
// decoded.
func (s *Source) probeOf(rec perf.Record) *probe {
	var sample perf.Sample
	if rec.Type != perf.RecordSample || sample.ParseSample(rec.Body) != nil {
		return nil
	}
	return s.probe(sample.Raw)
}

// outstanding returns how many hits happened after the last sample that was read.
func (c *cpu) outstanding() (n uint64) {
	for f, e := range c.first {
		if e == nil {
			continue
		}
		if count, err := e.Count(); err == nil && count > c.last[f] {
			n += count - c.last[f]
		}
	}
	return n
}
