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

// Faults are what happens to the monitor while processes are performed. The zero value is none.
type Faults struct {
	Ring    int           // bytes of a ring, or of the socket's buffer
	Length  int           // events that a queue can hold
	Open    time.Duration // the queues are opened so long after the first life
	Drain   time.Duration // their orderly end begins so long after the first life
	Load    int           // threads of another process that always run
	Stop    Pulse         // the process that reads the queues stands still
	Offline Pulse         // the last CPU is away, in guests
}

// Pulse is something that is off for a time, then on for a time, until all processes have ended.
type Pulse struct{ Off, On time.Duration }

func (p Pulse) String() string { return fmt.Sprintf("%v+%v", p.Off, p.On) }

func parsePulse(text string) (p Pulse, err error) {
	off, on, _ := strings.Cut(text, "+")
	if p.Off, err = time.ParseDuration(off); err == nil {
		p.On, err = time.ParseDuration(on)
	}
	return p, err
}

// each calls f with each fault that is set, its text and a way to remove it.
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

// String returns the text that ParseFaults reads, "" for none.
func (f Faults) String() string {
	var words []string
	f.each(func(text string, _ func(*Faults)) { words = append(words, text) })
	return strings.Join(words, " ")
}

// ParseFaults reads the text of faults, such as "ring=4096 stop=20ms+200ms".
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
			err = fmt.Errorf("no such fault")
		}
		if err != nil {
			return f, fmt.Errorf("fault %q: %w", word, err)
		}
	}
	return f, nil
}

// Smaller returns the faults without one of them each.
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

// randomFaults returns some faults, or none.
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
		f.Stop = Pulse{ms(100) + on/4, on} // it serves the processes as well
	}
	if one(4) && scenario.InGuest() { // a host has other work
		f.Offline = Pulse{ms(200), ms(200)}
	}
	return f
}

// apply gives the options of a queue the faults that are part of them.
func (f *Faults) apply(o *quark.Options) {
	o.MaxLength, o.EBPF.RingSize, o.KProbe.RingSize, o.CNProc.ReceiveBuffer = f.Length, f.Ring, f.Ring, f.Ring
	o.Audit.ReceiveBuffer = f.Ring
}
