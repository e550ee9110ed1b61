package tracepoint

import (
	"cmp"
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
		if r == r.hits {
			r.tally.NoteFull(r.mapped, held, maxSample)
			if r.tally.Suspected() != 0 {
				s.reportLoss(r)
			}
			continue
		}
		if r.mapped.Size()-held <= maxSide {
			r.renames.Suspect(r.tally.Last)
		}
	}
	s.reportNames()
}

func (s *Source) reportLoss(r *ring) {
	if g, ok := r.tally.Gap(r.number, r.mapped, s.counts); ok {
		s.gap(g)
	}
}

// patience is for how long a lost name is taken for that of an exec which is under way, in ns.
const patience = 20_000_000

// reportNames queues gaps if a ring of new names has lost some that were events: more than those of
// execs. Nobody counts how many, as others can be of threads that nobody asked for, or of execs
// that failed when it was too late to go back.
func (s *Source) reportNames() {
	for _, r := range s.rings {
		since := r.renames.Suspected()
		if since == 0 {
			continue
		}
		n, _ := r.renames.Settle(r.mapped)
		if n == 0 {
			continue
		}
		if s.namesLost == 0 {
			s.namesSince = clock.Monotonic()
		}
		if n == perf.Unknown || s.namesLost == perf.Unknown {
			s.namesLost = perf.Unknown
		} else {
			s.namesLost += n
		}
		r.lost = cmp.Or(r.lost, since)
	}
	if s.namesLost == 0 {
		return
	}
	unnamed := s.unnamedExecs()
	if unnamed != s.namesLost || unnamed == perf.Unknown {
		now := clock.Monotonic()
		if unnamed != perf.Unknown && s.namesLost != perf.Unknown && now-s.namesSince < patience {
			return
		}
		s.blind = true
		for _, r := range s.rings {
			if r.lost != 0 {
				s.gap(engine.Gap{Cause: engine.LossRingFull, CPU: uint32(r.number), From: r.lost, To: now})
			}
		}
	}
	if unnamed != perf.Unknown {
		s.execNames += unnamed
	}
	s.namesLost = 0
	for _, r := range s.rings {
		r.lost = 0
	}
}

// unnamedExecs returns how many execs there were without a record of the new name, or
// [perf.Unknown].
func (s *Source) unnamedExecs() (n uint64) {
	if l := s.byWhat[executed]; l == nil || !l.reported {
		return perf.Unknown
	}
	ofExec := func(rec perf.Record) bool {
		var c perf.Comm
		return rec.Type == perf.RecordComm && c.ParseComm(rec) == nil && c.Exec
	}
	for _, c := range s.cpus {
		count, err := c.hits.tally.Count(int(executed))
		if err != nil {
			return perf.Unknown
		}
		n += count - c.names.mapped.Queued(ofExec)
	}
	return n - s.execNames
}

// counts reports whether a record is counted: it is of a tracepoint, and becomes an event.
func (s *Source) counts(rec perf.Record) bool {
	var sample perf.Sample
	if rec.Type != perf.RecordSample || sample.ParseSample(rec.Body) != nil {
		return false
	}
	l := s.layoutOf(sample.Raw)
	return l != nil && l.reported
}

// Stats returns how many events were produced and lost. Before Linux 6.16 records that are lost, or
// in a ring, count even if they are of the birth or end of a thread that nobody asked for. Lost new
// names do not, see reportNames.
func (s *Source) Stats() (engine.SourceStats, error) {
	if s.closed {
		return engine.SourceStats{}, os.ErrClosed
	}
	st := engine.SourceStats{Bound: s.blind, Unread: s.unread}
	st.Lost[engine.LossRingFull] = s.lost
	st.Lost[engine.LossDecode] = s.decode
	st.Produced = s.handed + st.LostTotal()
	for _, r := range s.rings {
		if r != r.hits {
			full := r.mapped.Size()-r.mapped.Pending() <= maxSide
			st.Bound = st.Bound || s.renames != 0 && (full || r.renames.Suspected() != 0 || r.lost != 0)
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
