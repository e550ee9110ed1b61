package kprobe

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/internal/perf"
)

// cpu is what is read from one CPU: the ring, and the events that write to it.
type cpu struct {
	number int
	ring   *perf.Ring
	events []*perf.Event // the first leads, and owns the ring
	bells  []*perf.Event // the first leads
	gone   bool          // the CPU went offline; what it left is to be read
	armed  bool          // the bells are
	rang   bool          // a bell did, since Arm

	first [numFamilies]*perf.Event // of each set, the one whose count counts
	last  [numFamilies]uint64      // its count with the last record
	now   assembly
}

// openCPU opens the events of all sets on one CPU, still disabled.
func openCPU(number int, sets []*set, ringSize int) (*cpu, error) {
	c := &cpu{number: number}
	if err := c.open(sets, ringSize); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cpu) open(sets []*set, ringSize int) error {
	for _, s := range sets {
		for _, p := range s.probes {
			e, err := c.openEvent(p, &c.events, ringSize/4)
			if err != nil {
				return err
			}
			if c.ring == nil {
				if c.ring, err = perf.Map(e, ringSize); err != nil {
					return err
				}
			} else if err := e.SetOutput(c.ring); err != nil {
				return err
			}
			if p.part == 1 {
				c.first[s.family] = e
			}
		}
	}
	for _, s := range sets {
		e, err := c.openEvent(s.probes[0], &c.bells, 0)
		if err != nil {
			return err
		}
		if err := e.SetOutput(c.ring); err != nil {
			return err
		}
	}
	return nil
}

func (c *cpu) openEvent(p *probe, group *[]*perf.Event, watermark int) (*perf.Event, error) {
	o := perf.Options{CPU: c.number, Watermark: watermark, Filter: p.set.filter}
	if len(*group) > 0 {
		o.Group = (*group)[0]
	}
	e, err := perf.Open(uint64(p.layout.id), o)
	if err != nil {
		return nil, fmt.Errorf("open probe %s of %s on CPU %d: %w", p.def.name, p.def.symbol, c.number, err)
	}
	*group = append(*group, e)
	return e, nil
}

func (c *cpu) enable() error {
	if err := c.events[0].Enable(); err != nil {
		return fmt.Errorf("enable probes on CPU %d: %w", c.number, err)
	}
	return nil
}

// arm makes the next event wake the reader.
func (c *cpu) arm() {
	if !c.armed && c.bells[0].Enable() == nil {
		c.armed = true
	}
}

func (c *cpu) disarm() {
	if c.armed && c.bells[0].Disable() == nil {
		c.armed = false
	}
}

func (c *cpu) close() error {
	var errs []error
	if c.ring != nil {
		errs = append(errs, c.ring.Close())
	}
	for _, e := range append(c.bells, c.events...) {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}
