package score

import (
	"slices"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// used judges what an EXIT says of what the process has used: no less than it had said itself
// before its end, and no more than who waited for it was told, which has the rest of the end too.
func (j *judge) used(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	p, least, most := s.Process, e.Life.Used, e.Used
	if most == nil || f == engine.FieldIO && most.IO == nil {
		return
	}
	if !p.Known.Has(f) {
		one := len(e.Life.Threads) == 0 && !e.Life.OpenThreads
		if one && j.w.Backend != "cnproc" && j.w.Table.Fields[f].At.Has(s.Events&engine.EventExit) {
			v.Unexplained++
			j.find(e.Life, "%s: %s is unknown, of a process with one thread", s.Events, f)
			return
		}
		v.Unknown++
		return
	}
	right, u := true, p.Usage
	within := func(what string, got, from, to uint64) {
		if got < from || got > to {
			right = false
			j.find(e.Life, "%s: %s is %d, not between %d and %d", s.Events, what, got, from, to)
		}
	}
	if least == nil {
		least = &truth.Used{}
	}
	switch f {
	case engine.FieldCPUTime:
		const cut = 2000 // rusage has whole microseconds
		within("the CPU time", u.UserTime+u.SystemTime+cut, least.CPU, most.CPU+2*cut)
		within("the user time", u.UserTime+cut, least.User, truth.Forever)
		within("the system time", u.SystemTime+cut, least.System, truth.Forever)
	case engine.FieldPeakRSS:
		low := least.PeakRSS
		if !j.hasChildren(e.Life) { // else most may be that of a child
			low = most.PeakRSS
		}
		within("the peak RSS", u.PeakRSS, low, most.PeakRSS)
	case engine.FieldIO:
		from := least.IO
		if from == nil {
			from = &truth.IO{RChar: most.IO.RChar, WChar: most.IO.WChar}
		}
		within("rchar", u.RChar, from.RChar, most.IO.RChar)
		within("wchar", u.WChar, from.WChar, most.IO.WChar)
		within("read_bytes", u.ReadBytes, from.ReadBytes, most.IO.ReadBytes)
		within("write_bytes", u.WriteBytes, from.WriteBytes, most.IO.WriteBytes)
	}
	if right {
		v.Right++
	} else {
		v.Wrong++
	}
}

// hasChildren reports whether a life made others.
func (j *judge) hasChildren(l *truth.Life) bool {
	for _, lives := range j.byPID {
		if slices.ContainsFunc(lives, func(c *truth.Life) bool { return c.Creator == l }) {
			return true
		}
	}
	return false
}
