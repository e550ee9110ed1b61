package kprobe

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/backends/internal/perf"
)

// cpu is what is read from one CPU: the ring, and the events that write to it.
type cpu struct {
	number int
	ring   *perf.Ring
	leader *perf.Event
	events []*perf.Event // that follow it; the first owns the ring
	bells  []*perf.Event // the first leads
	gone   bool          // the CPU went offline; what it left is to be read
	armed  bool          // the bells are
	rang   bool          // a bell did, since Arm
	// owes is not 0 while the last record read was a bell's: the kernel writes it
	// before the records of its event, and those wake nobody. It is until when they
	// are waited for.
	owes uint64

	lacks bool // records may be missing, see mayLack

	first [numFamilies]int    // of each set, the number of the event whose count counts, from 1
	last  [numFamilies]uint64 // its count with the last record
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
	leader, err := perf.OpenLeader(c.number)
	if err != nil {
		return fmt.Errorf("open the leader of probes on CPU %d: %w", c.number, err)
	}
	c.leader = leader
	for _, s := range sets {
		for _, p := range s.probes {
			e, err := c.openEvent(p, leader, ringSize/4, s.filter)
			if err != nil {
				return err
			}
			c.events = append(c.events, e)
			if c.ring == nil {
				if c.ring, err = perf.Map(e, ringSize); err != nil {
					return err
				}
			} else if err := e.SetOutput(c.ring); err != nil {
				return err
			}
			if p.part == 1 {
				c.first[s.family] = len(c.events)
			}
		}
		for _, p := range s.guards { // without a ring, as nothing is recorded
			e, err := c.openEvent(p, leader, ringSize/4, guardFilter)
			if err != nil {
				return err
			}
			c.events = append(c.events, e)
		}
	}
	for _, s := range sets {
		if families[s.family].before {
			continue
		}
		e, err := c.openEvent(s.probes[0], c.bell(), 0, s.filter)
		if err != nil {
			return err
		}
		c.bells = append(c.bells, e)
		if err := e.SetOutput(c.ring); err != nil {
			return err
		}
	}
	return nil
}

func (c *cpu) openEvent(p *probe, leader *perf.Event, watermark int, filter string) (*perf.Event, error) {
	o := perf.Options{CPU: c.number, Group: leader, Watermark: watermark, Filter: filter}
	e, err := perf.Open(uint64(p.layout.id), o)
	if err != nil {
		return nil, fmt.Errorf("open probe %s of %s on CPU %d: %w", p.def.name, p.def.symbol, c.number, err)
	}
	return e, nil
}

// bell is the leader of the bells; nil before there is one.
func (c *cpu) bell() *perf.Event {
	if len(c.bells) == 0 {
		return nil
	}
	return c.bells[0]
}

func (c *cpu) enable() error {
	if err := c.leader.Enable(); err != nil {
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
	if c.leader != nil {
		errs = append(errs, c.leader.Close())
	}
	return errors.Join(errs...)
}
