package kprobe

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/perf"
)

// cpu is one CPU's ring, and the perf events that write to it.
type cpu struct {
	perf.CPU
	leader *perf.Event
	events []*perf.Event // in the leader's group; the first owns the ring

	// wakeups are wakeup events, one for each set, led by the first. A wakeup event writes an
	// empty record that wakes the reader. The kernel writes this record before the samples of
	// the same hit, which do not wake the reader.
	wakeups []*perf.Event
	armed   bool // the wakeup events are enabled
	woke    bool // a wakeup record was read since Arm

	// wakeupDeadline is the time in ns until which the samples of a wakeup record are expected.
	// It is 0 unless the last record read was a wakeup record.
	wakeupDeadline uint64

	beat  *perf.Event // counts hits of Source.beat
	tally perf.Tally  // of the first probe of each family

	now assembly
}

// openCPU opens the events of all sets on one CPU, disabled.
func openCPU(number int, sets []*set, beat *probe, ringSize int) (*cpu, error) {
	c := &cpu{CPU: perf.CPU{Number: number}}
	if err := c.open(sets, beat, ringSize); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cpu) open(sets []*set, beat *probe, ringSize int) error {
	leader, err := perf.OpenLeader(c.Number)
	if err != nil {
		return fmt.Errorf("open the leader of probes on CPU %d: %w", c.Number, err)
	}
	c.leader = leader
	for _, s := range sets {
		for _, p := range s.probes {
			e, err := c.openEvent(p, leader, ringSize/4, s.filter)
			if err != nil {
				return err
			}
			c.events = append(c.events, e)
			if c.Ring == nil {
				if c.Ring, err = perf.Map(e, ringSize); err != nil {
					return err
				}
			} else if err := e.SetOutput(c.Ring); err != nil {
				return err
			}
			if p.part == 1 {
				c.tally.Add(s.family, e)
			}
		}
		for _, p := range s.guards { // guards make no records, so they need no ring
			e, err := c.openEvent(p, leader, ringSize/4, guardFilter)
			if err != nil {
				return err
			}
			c.events = append(c.events, e)
		}
	}
	if beat != nil {
		if c.beat, err = c.openEvent(beat, leader, ringSize/4, ""); err != nil {
			return err
		}
		c.events = append(c.events, c.beat)
	}
	for _, s := range sets {
		if families[s.family].before {
			continue
		}
		e, err := c.openEvent(s.probes[0], c.wakeupLeader(), 0, s.filter)
		if err != nil {
			return err
		}
		c.wakeups = append(c.wakeups, e)
		if err := e.SetOutput(c.Ring); err != nil {
			return err
		}
	}
	return nil
}

func (c *cpu) openEvent(p *probe, leader *perf.Event, watermark int, filter string) (*perf.Event, error) {
	o := perf.Options{CPU: c.Number, Group: leader, Watermark: watermark, Filter: filter}
	e, err := perf.Open(uint64(p.layout.id), o)
	if err != nil {
		return nil, fmt.Errorf("open probe %s of %s on CPU %d: %w", p.def.name, p.def.symbol, c.Number, err)
	}
	return e, nil
}

// hits returns, for package pulse, the hits of Source.beat on this thread's CPU.
func (s *Source) hits() (n uint64, number int) {
	var current uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&current)), 0, 0)
	for _, c := range s.cpus {
		if c.Number == int(current) && !c.Offline && c.beat != nil {
			if n, err := c.beat.Count(); err == nil {
				return n, c.Number
			}
		}
	}
	return 0, -1
}

// wakeupLeader returns the leader of the wakeup events, or nil before the first is opened.
func (c *cpu) wakeupLeader() *perf.Event {
	if len(c.wakeups) == 0 {
		return nil
	}
	return c.wakeups[0]
}

func (c *cpu) enable() error {
	if err := c.leader.Enable(); err != nil {
		return fmt.Errorf("enable probes on CPU %d: %w", c.Number, err)
	}
	return nil
}

// arm makes the next hit of a probe wake the reader.
func (c *cpu) arm() {
	if !c.armed && c.wakeups[0].Enable() == nil {
		c.armed = true
	}
}

func (c *cpu) disarm() {
	if c.armed && c.wakeups[0].Disable() == nil {
		c.armed = false
	}
}

func (c *cpu) close() error {
	var errs []error
	if c.Ring != nil {
		errs = append(errs, c.Ring.Close())
	}
	for _, e := range append(c.wakeups, c.events...) {
		errs = append(errs, e.Close())
	}
	if c.leader != nil {
		errs = append(errs, c.leader.Close())
	}
	return errors.Join(errs...)
}
