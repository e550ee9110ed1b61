package fuzz

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Faults are faults of the monitor while processes run. The zero value means none.
type Faults struct {
	Ring    int           // size of a ring, or of the socket's buffer, in bytes
	Length  int           // maximum number of events of a queue
	Open    time.Duration // time from the first process to the opening of the queues
	Drain   time.Duration // time from the first process to the queues' orderly end
	Load    int           // number of busy threads of another process
	Stop    Pulse         // the process that reads the queues pauses
	Offline Pulse         // the last CPU is offline, in guests
}

// Pulse is a fault that is alternately off and on until all processes have ended.
type Pulse struct{ Off, On time.Duration }

func (p Pulse) String() string { return fmt.Sprintf("%v+%v", p.Off, p.On) }

// Set parses the form of String.
func (p *Pulse) Set(text string) (err error) {
	off, on, _ := strings.Cut(text, "+")
	if p.Off, err = time.ParseDuration(off); err == nil {
		p.On, err = time.ParseDuration(on)
	}
	return err
}

// flags returns the faults as flags. Each default value means no fault.
func (f *Faults) flags() *flag.FlagSet {
	values, s := *f, flag.NewFlagSet("faults", flag.ContinueOnError)
	*f = Faults{}
	s.IntVar(&f.Ring, "ring", 0, "")
	s.IntVar(&f.Length, "length", 0, "")
	s.DurationVar(&f.Open, "open", 0, "")
	s.DurationVar(&f.Drain, "drain", 0, "")
	s.IntVar(&f.Load, "load", 0, "")
	s.Var(&f.Stop, "stop", "")
	s.Var(&f.Offline, "offline", "")
	*f = values
	return s
}

// each calls visit with each fault that is set.
func (f *Faults) each(visit func(*flag.Flag)) {
	f.flags().VisitAll(func(fault *flag.Flag) {
		if fault.Value.String() != fault.DefValue {
			visit(fault)
		}
	})
}

// String returns the text that ParseFaults parses, "" for none.
func (f Faults) String() string {
	var words []string
	f.each(func(fault *flag.Flag) { words = append(words, fault.Name+"="+fault.Value.String()) })
	return strings.Join(words, " ")
}

// ParseFaults parses faults, such as "ring=4096 stop=20ms+200ms".
func ParseFaults(text string) (f Faults, err error) {
	flags := f.flags()
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		if err := flags.Set(name, value); err != nil {
			return f, fmt.Errorf("fault %q: %w", word, err)
		}
	}
	return f, nil
}

// Smaller returns, for each fault, the faults without it.
func (f Faults) Smaller() (list []Faults) {
	less := f
	less.each(func(fault *flag.Flag) {
		fault.Value.Set(fault.DefValue)
		list = append(list, less)
		less = f
	})
	return list
}

// randomFaults returns a random set of faults.
func randomFaults(rng *rand.Rand) (f Faults) {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	ms := func(most int) time.Duration { return time.Duration(1+rng.IntN(most)) * time.Millisecond }
	if one(2) {
		f.Ring = []int{1, 16 << 10, 64 << 10, 256 << 10}[rng.IntN(4)]
	}
	if one(4) {
		f.Length = []int{100, 1000}[rng.IntN(2)]
	}
	if one(4) {
		f.Open = ms(1000)
	}
	if one(4) {
		f.Drain = f.Open + ms(1000)
	}
	if one(4) {
		f.Load = 1 + rng.IntN(4)
	}
	if one(2) {
		on := ms(400)
		f.Stop = Pulse{ms(100) + on/4, on} // the paused process serves the scripts too
	}
	if one(4) && scenario.InGuest() { // on a host it would affect other work
		f.Offline = Pulse{ms(200), ms(200)}
	}
	return f
}

// apply sets the options of a queue.
func (f *Faults) apply(o *quark.Options) {
	o.MaxLength, o.EBPF.RingSize, o.KProbe.RingSize, o.CNProc.ReceiveBuffer = f.Length, f.Ring, f.Ring, f.Ring
	o.Audit.ReceiveBuffer = f.Ring
}
