package kprobe

import (
	"cmp"
	"os"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// losses is what is known of the events that one CPU's ring had no room for. The kernel writes a
// lost-record before the next record that finds room; how many events are missing the counts say.
type losses struct {
	last     uint64 // time of the last sample
	since    uint64 // not 0: events of after this time may be missing that no gap tells of
	between  uint64 // events missing between those that were read
	reported uint64 // lost events that gaps have reported
}

// suspect notes that events may be missing after the last sample.
func (l *losses) suspect() { l.since = cmp.Or(l.since, l.last) }

// release gives the rings' room back, and inserts gaps for what was lost. The counts are read after
// that: until then a full ring loses more.
func (s *Source) release(to engine.Sink) {
	for _, c := range s.cpus {
		if c.now.set != nil {
			c.now.values.keep()
		}
		c.noteFull(c.ring.Release())
		if c.losses.since != 0 {
			s.execs.doubt(c.losses.since)
			s.reportLoss(c, to)
		}
	}
}

// reportLoss inserts a gap for what c lost until now.
func (s *Source) reportLoss(c *cpu, to engine.Sink) {
	l := &c.losses
	missing, exact := s.missing(c)
	if missing > l.reported {
		ev := to.Reserve()
		ev.SetGap(engine.Gap{
			Cause: engine.LossRingFull, CPU: uint32(c.number), From: cmp.Or(l.since, l.last), To: clock.Monotonic(), Count: missing - l.reported,
		})
		to.Insert(ev)
		l.reported = missing
	}
	if exact {
		l.since = 0
	}
}

// missing is how many events of c are neither read nor queued; less if not exact, as others have
// happened meanwhile.
func (s *Source) missing(c *cpu) (n uint64, exact bool) {
	if c.leader == nil {
		return c.losses.between, true
	}
	pending := c.ring.Pending()
	outstanding := c.outstanding()
	queued := s.queued(c)
	return c.losses.between + outstanding - min(outstanding, queued), c.ring.Pending() == pending
}

// insertUnseen inserts a gap for what a CPU, -1 for any, did while it had no ring.
func insertUnseen(to engine.Sink, cpu int, from, until uint64) {
	ev := to.Reserve()
	ev.SetGap(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(cpu), From: from, To: until})
	to.Insert(ev)
}

// Stats returns how many events were produced and lost. Queued and lost samples count as
// produced, even if no event would have been made of them, such as of the new comm of a thread.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.probes == nil {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := engine.SourceStats{Bound: s.blind}
	st.Lost[engine.LossRingFull] = s.lost
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.handed + s.lost + s.decode + uint64(len(s.endings.parked)+len(s.ids.second))
	for _, c := range s.cpus {
		if c.now.set != nil && c.now.have&1 != 0 {
			st.Produced++
		}
		c.noteFull(c.ring.Pending())
		missing, exact := max(c.losses.reported, c.losses.between), true
		if c.losses.since != 0 {
			missing, exact = s.missing(c)
		}
		missing -= c.losses.between // which s.lost has
		st.Lost[engine.LossRingFull] += missing
		st.Produced += s.queued(c) + missing
		st.Bound = st.Bound || !exact
	}
	return st, nil
}

// noteFull notes how many bytes the ring held at most. If the longest record, with what perf adds
// to it, may have found no room, it may have dropped samples that no later record tells of, and the
// events' counters have to be read, for which the kernel interrupts the CPU.
func (c *cpu) noteFull(held int) {
	if c.ring.Size()-held <= 2*maxRecord {
		c.losses.suspect()
	}
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
