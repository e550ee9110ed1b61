package kprobe

import (
	"os"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// losses is what is known of the events that one CPU's ring had no room for. The kernel writes a
// lost-record before the next record that finds room. Where none follows, the events' counts show
// the loss once the ring was read to its end.
type losses struct {
	missed   bool   // a lost-record was read, and no sample since
	counted  bool   // the events' counts were read since the last record
	last     uint64 // time of the last sample
	since    uint64 // all that was lost before this time is reported
	between  uint64 // events missing between those that were read
	reported uint64 // lost events that gaps have reported
}

// reportLoss inserts a gap for what c lost up to a time.
func (s *Source) reportLoss(c *cpu, to engine.Sink, until uint64) {
	l := &c.losses
	missing := s.missing(c)
	if missing <= l.reported {
		return
	}
	count := missing - l.reported
	ev := to.Reserve()
	ev.SetGap(engine.Gap{
		Cause: engine.LossRingFull, CPU: uint32(c.number), From: max(l.since, min(l.last, until)), To: until, Count: count,
	})
	to.Insert(ev)
	l.reported = missing
}

// missing is how many events of c are neither read nor queued, or fewer.
func (s *Source) missing(c *cpu) uint64 {
	l := &c.losses
	if c.leader == nil {
		return l.between
	}
	outstanding := c.outstanding()
	c.incomplete = c.incomplete && outstanding > 0
	queued := s.queued(c)
	return l.between + outstanding - min(outstanding, queued)
}

// reportSilentLosses inserts gaps for what was lost on CPUs where nothing follows. began is
// when this reading of the rings did.
func (s *Source) reportSilentLosses(to engine.Sink, began uint64) {
	for _, c := range s.cpus {
		if c.ring.Pending() > 0 || to.Room() == 0 {
			continue
		}
		if c.incomplete && !c.losses.counted {
			c.losses.counted = true
			s.reportLoss(c, to, clock.Monotonic())
		}
		c.losses.since = began
	}
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
