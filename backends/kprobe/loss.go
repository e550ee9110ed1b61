package kprobe

import (
	"os"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
)

// release frees the rings' space, and inserts gaps for losses. It reads the counts after freeing
// the space: a full ring loses more samples until then.
func (s *Source) release(to engine.Sink) {
	for _, c := range s.cpus {
		if c.now.set != nil {
			c.now.values.keep()
		}
		c.tally.CheckFull(c.Ring, c.Ring.Release(), 2*maxRecord)
		if since := c.tally.Suspected(); since != 0 {
			s.execs.markMissing(since)
			s.reportLoss(c, to)
		}
	}
}

// reportLoss inserts a gap for the losses on c until now.
func (s *Source) reportLoss(c *cpu, to engine.Sink) {
	if g, ok := c.tally.Gap(c.Number, c.Ring, s.counts); ok {
		insertGap(to, g)
	}
}

func insertGap(to engine.Sink, g engine.Gap) {
	ev := to.Reserve()
	ev.SetGap(g)
	to.Insert(ev)
}

// insertUnseen inserts a gap for the time in which a CPU, or any CPU for -1, had no ring.
func insertUnseen(to engine.Sink, cpu int, from, until uint64) {
	insertGap(to, engine.Gap{Cause: engine.LossUnseen, CPU: uint32(cpu), From: from, To: until})
}

// Stats returns how many events were produced and lost. Queued and lost samples count as produced,
// even if they would make no events, such as the new comm of a thread.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.probes == nil {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := engine.SourceStats{Bound: s.blind || s.pulse.Missed()}
	st.Lost[engine.LossRingFull] = s.lost
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.inserted + s.lost + s.decode + uint64(len(s.endings.parked))
	for _, c := range s.cpus {
		if c.now.set != nil && c.now.have&1 != 0 {
			st.Produced++
		}
		c.tally.CheckFull(c.Ring, c.Ring.Pending(), 2*maxRecord)
		missing, exact := c.tally.Unreported(c.Ring, s.counts)
		st.Lost[engine.LossRingFull] += missing
		st.Produced += c.Ring.Queued(s.counts) + missing
		st.Bound = st.Bound || !exact
	}
	return st, nil
}

// counts reports whether a record is the first of an event.
func (s *Source) counts(rec perf.Record) bool {
	p := s.probeOf(rec)
	return p != nil && p.part == 1
}

// probeOf returns the probe that made a record. It returns nil for a wakeup record and for a record
// that cannot be decoded.
func (s *Source) probeOf(rec perf.Record) *probe {
	var sample perf.Sample
	if rec.Type != perf.RecordSample || sample.ParseSample(rec.Body) != nil {
		return nil
	}
	return s.probe(sample.Raw)
}
