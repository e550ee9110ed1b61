package tracepoint

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/backends/internal/perf"
)

// cpu is the perf events of one CPU, and their rings.
type cpu struct {
	number int
	leader *perf.Event // writes new names, if any
	events []*perf.Event
	hits   *ring // of the tracepoints, nil for none
	names  *ring // of the leader, nil for none
	gone   bool  // the CPU went offline; its rings are still to be read
}

// ring is a ring as it is read.
type ring struct {
	*cpu
	mapped  *perf.Ring
	tally   perf.Tally
	renames perf.Names // of a ring of new names, which has no events to tally
	lost    uint64     // not 0: since when new names are lost that no gap tells of
}

// Ring is for [perf.ReadQueued].
func (r *ring) Ring() *perf.Ring { return r.mapped }

// wake is the watermark of all events, in bytes: each record wakes who waits, as what /proc has of
// a process has to be read before that ends.
const wake = 1

// defaultNames is the size of the ring of new names. It is not to be tiny where that of the
// tracepoints is, as nobody knows how many of the names that it has lost are events.
const defaultNames = 256 << 10

// openCPU opens the events of one CPU, disabled.
func (s *Source) openCPU(number int) (*cpu, error) {
	c := &cpu{number: number}
	if err := c.open(s); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cpu) open(s *Source) (err error) {
	open, what := perf.OpenLeader, "the leader of the tracepoints"
	if s.names {
		open, what = perf.OpenComm, "the records of new names"
	}
	if c.leader, err = open(c.number); err != nil {
		return fmt.Errorf("open %s on CPU %d: %w", what, c.number, err)
	}
	if s.names {
		mapped, err := perf.Map(c.leader, s.namesSize)
		if err != nil {
			return err
		}
		mapped.TimesBehind()
		c.names = &ring{cpu: c, mapped: mapped}
	}
	if s.renames != 0 {
		e, err := perf.Open(s.renames, perf.Options{CPU: c.number, Group: c.leader, CountOnly: true})
		if err != nil {
			return fmt.Errorf("count new names on CPU %d: %w", c.number, err)
		}
		c.events = append(c.events, e)
		c.names.renames.Count(e)
	}
	for _, l := range s.layouts {
		h := &hooks[l.what]
		e, err := perf.Open(l.id, perf.Options{CPU: c.number, Group: c.leader, Watermark: wake, Filter: l.filter})
		if err != nil {
			return fmt.Errorf("open tracepoint %s/%s on CPU %d: %w", h.group, h.name, c.number, err)
		}
		c.events = append(c.events, e)
		if c.hits == nil {
			mapped, err := perf.Map(e, s.ringSize)
			if err != nil {
				return err
			}
			c.hits = &ring{cpu: c, mapped: mapped}
		} else if err := e.SetOutput(c.hits.mapped); err != nil {
			return err
		}
		if l.reported {
			c.hits.tally.Add(int(l.what), e)
		}
	}
	return nil
}

// rings returns the rings that the CPU has.
func (c *cpu) rings() (list []*ring) {
	for _, r := range []*ring{c.hits, c.names} {
		if r != nil {
			list = append(list, r)
		}
	}
	return list
}

// pending reports whether a record is queued.
func (c *cpu) pending() bool {
	for _, r := range c.rings() {
		if r.mapped.Pending() > 0 {
			return true
		}
	}
	return false
}

func (c *cpu) close() error {
	var errs []error
	for _, r := range c.rings() {
		errs = append(errs, r.mapped.Close())
	}
	for _, e := range c.events {
		errs = append(errs, e.Close())
	}
	if c.leader != nil {
		errs = append(errs, c.leader.Close())
	}
	return errors.Join(errs...)
}
