package fuzz

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
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

func parsePulse(text string) (p Pulse, err error) {
	off, on, _ := strings.Cut(text, "+")
	if p.Off, err = time.ParseDuration(off); err == nil {
		p.On, err = time.ParseDuration(on)
	}
	return p, err
}

// each calls visit with each fault that is set, its text and a function to remove it.
func (f *Faults) each(visit func(text string, remove func(*Faults))) {
	visitIf := func(set bool, name string, value any, remove func(*Faults)) {
		if set {
			visit(fmt.Sprintf("%s=%v", name, value), remove)
		}
	}
	visitIf(f.Ring != 0, "ring", f.Ring, func(f *Faults) { f.Ring = 0 })
	visitIf(f.Length != 0, "length", f.Length, func(f *Faults) { f.Length = 0 })
	visitIf(f.Open != 0, "open", f.Open, func(f *Faults) { f.Open = 0 })
	visitIf(f.Drain != 0, "drain", f.Drain, func(f *Faults) { f.Drain = 0 })
	visitIf(f.Load != 0, "load", f.Load, func(f *Faults) { f.Load = 0 })
	visitIf(f.Stop.On != 0, "stop", f.Stop, func(f *Faults) { f.Stop = Pulse{} })
	visitIf(f.Offline.On != 0, "offline", f.Offline, func(f *Faults) { f.Offline = Pulse{} })
}

// String returns the text that ParseFaults parses, "" for none.
func (f Faults) String() string {
	var words []string
	f.each(func(text string, _ func(*Faults)) { words = append(words, text) })
	return strings.Join(words, " ")
}

// ParseFaults parses faults, such as "ring=4096 stop=20ms+200ms".
func ParseFaults(text string) (f Faults, err error) {
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "ring":
			f.Ring, err = strconv.Atoi(value)
		case "length":
			f.Length, err = strconv.Atoi(value)
		case "open":
			f.Open, err = time.ParseDuration(value)
		case "drain":
			f.Drain, err = time.ParseDuration(value)
		case "load":
			f.Load, err = strconv.Atoi(value)
		case "stop":
			f.Stop, err = parsePulse(value)
		case "offline":
			f.Offline, err = parsePulse(value)
		default:
			err = fmt.Errorf("unknown fault")
		}
		if err != nil {
			return f, fmt.Errorf("fault %q: %w", word, err)
		}
	}
	return f, nil
}

// Smaller yields, for each fault, the faults without it.
func (f Faults) Smaller() iter.Seq[Faults] {
	return func(yield func(Faults) bool) {
		more := true
		f.each(func(_ string, remove func(*Faults)) {
			if less := f; more {
				remove(&less)
				more = yield(less)
			}
		})
	}
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
