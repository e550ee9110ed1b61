package tracepoint

import (
	"fmt"
	"os"
	"slices"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// maxSample is about the longest record of a ring, that of an exec of a long path.
const maxSample = 4096 + 512

// maxSide is about the longest record of a ring of new names.
const maxSide = 128

// releaseRings gives the rings' room back, and queues gaps for what was lost. The counts are read
// after that: until then a full ring loses more.
func (s *Source) releaseRings() {
	for _, r := range s.rings {
		held := r.mapped.Release()
		if r != r.hits {
			r.full = r.full || r.mapped.Size()-held <= maxSide
			continue
		}
		r.tally.NoteFull(r.mapped, held, maxSample)
		if r.tally.Suspected() != 0 {
			s.reportLoss(r)
		}
	}
}

func (s *Source) reportLoss(r *ring) {
	if g, ok := r.tally.Gap(r.number, r.mapped, s.counts); ok {
		s.gap(g)
	}
}

// loseNames notes that n records of a ring of new names are lost. New names are no events if nobody
// wants to know them.
func (s *Source) loseNames(r *ring, n uint64) {
	if !s.shared.Reports(engine.EventSetProcTitle) {
		s.queue.add(&record{what: lost, time: max(r.tally.Last, s.noted)})
		return
	}
	s.namesLost += n
	s.gap(engine.Gap{Cause: engine.LossRingFull, CPU: uint32(r.number), From: r.tally.Last, To: clock.Monotonic()})
}

// lostNames returns how many of the records that the rings of new names have lost were events: all
// but those that each birth, exec and end of a thread has there, too. exact is false if nobody
// counts these.
func (s *Source) lostNames() (n uint64, exact bool) {
	if s.namesLost == 0 {
		return s.namesGone, true
	}
	if !s.countsOthers() {
		return 0, false
	}
	return s.namesGone + s.namesLost - min(s.namesLost, uint64(max(0, s.surplus()-s.balanced))), true
}

func (s *Source) countsOthers() bool {
	return s.byWhat[newTask] != nil && s.byWhat[executed] != nil && s.byWhat[ended] != nil
}

// surplus returns how many more hits of tracepoints there were than records of them in the rings of
// new names.
func (s *Source) surplus() int64 {
	hits := s.hitsGone
	for _, c := range s.cpus {
		hits += c.hits.others()
	}
	return int64(hits) - int64(s.others)
}

// balance settles what the lost records were, with all rings read to the end. The surplus counts
// since it was called last: BPF programs of others keep hits back, which nothing counts, but no
// records of the rings of new names, so that it becomes less all the time.
func (s *Source) balance() {
	unsure := func(r *ring) bool { return r == r.hits && !r.tally.Whole() || r != r.hits && r.full }
	if !s.countsOthers() || slices.ContainsFunc(s.rings, unsure) {
		return
	}
	s.namesGone, _ = s.lostNames()
	s.namesLost, s.balanced = 0, s.surplus()
}

// others returns how often a tracepoint was hit that has a record in the ring of new names, too.
func (r *ring) others() uint64 {
	if r == nil {
		return 0
	}
	return r.tally.Hits(int(newTask)) + r.tally.Hits(int(executed)) + r.tally.Hits(int(ended))
}

// counts reports whether a record is counted: it is of a tracepoint.
func (s *Source) counts(rec perf.Record) bool {
	var sample perf.Sample
	return rec.Type == perf.RecordSample && sample.ParseSample(rec.Body) == nil && s.layoutOf(sample.Raw) != nil
}

// Stats returns how many events were produced and lost. Records that are lost, or in a ring, count
// as produced, even if no event would have been made of them, such as of the end of a thread.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.closed {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := engine.SourceStats{Bound: s.blind, Unread: s.unread}
	names, exact := s.lostNames()
	st.Lost[engine.LossRingFull] = s.lost + names
	st.Bound = st.Bound || !exact
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.handed + st.LostTotal()
	for _, r := range s.rings {
		if r != r.hits {
			continue
		}
		r.tally.NoteFull(r.mapped, r.mapped.Pending(), maxSample)
		missing, exact := r.tally.Untold(r.mapped, s.counts)
		st.Lost[engine.LossRingFull] += missing
		st.Produced += r.mapped.Queued(s.counts) + missing
		st.Bound = st.Bound || !exact
	}
	return st, nil
}

// online are the source's CPUs as [perf.Online] keeps them.
type online struct{ *Source }

func (s online) Len() int { return len(s.cpus) }

func (s online) Sees(number int) bool {
	return slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.number == number && !c.gone })
}

func (s online) Gone(f func(int) bool) {
	for _, c := range s.cpus {
		c.gone = c.gone || f(c.number)
	}
}

func (s online) AnyGone() bool {
	return slices.ContainsFunc(s.cpus, func(c *cpu) bool { return c.gone })
}

func (s online) Add(number int) error { return s.addCPU(number) }

func (s online) Miss(number int) {
	s.blind = true
	if !slices.Contains(s.unseen, number) {
		s.unseen = append(s.unseen, number)
	}
}

func (s online) Failed(number int, err error) {
	note := fmt.Sprintf("CPU %d came online and is not seen: %v", number, err)
	if !slices.Contains(s.caps.Notes, note) {
		s.caps.Notes = append(s.caps.Notes, note)
	}
}

// followCPUs looks for CPUs that came or went, and queues gaps for those that came: what happened
// there since the last look nobody saw.
func (s *Source) followCPUs() {
	began := clock.Monotonic()
	s.online.Follow(online{s})
	for _, n := range s.unseen {
		s.gap(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(n), From: s.followed, To: clock.Monotonic()})
	}
	s.unseen = s.unseen[:0]
	if s.noted >= s.followed { // else the rings hold events of before the next gap
		s.followed = min(began, s.noted)
	}
}

// closeGone closes the rings of CPUs that went offline, once they are read to the end.
func (s *Source) closeGone() {
	s.cpus = slices.DeleteFunc(s.cpus, func(c *cpu) bool {
		if !c.gone || c.pending() {
			return false
		}
		var from uint64
		if r := c.hits; r != nil {
			g, lost, ok := r.tally.Final(r.number)
			if s.lost += lost; ok {
				s.gap(g)
			}
			s.hitsGone += r.others()
		}
		for _, r := range c.rings() {
			from = max(from, r.tally.Last)
		}
		// The kernel takes the perf events away before the tasks.
		s.gap(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(c.number), From: from, To: clock.Monotonic()})
		s.blind = true
		for _, r := range c.rings() {
			s.pace.Remove(r.mapped.FD())
		}
		c.close()
		s.rings = slices.DeleteFunc(s.rings, func(r *ring) bool { return r.cpu == c })
		return true
	})
}
