package score

import (
	"slices"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// used scores what an EXIT says of what the process has used: no less than it had said itself
// before its end, and no more than who waited for it was told, which has the rest of the end too.
// The I/O is without that of children, which both of these can have.
func (j *scorer) used(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	p, least, most := s.Process, e.Life.Used, e.Used
	one := oneThread(e.Life)
	if most == nil || f == engine.FieldIO && most.IO == nil {
		return
	}
	if !p.Known.Has(f) {
		whose := ""
		switch {
		case !j.w.Table.Fields[f].At.Has(s.Events & engine.EventExit):
		case one:
			whose = "of a process with one thread"
		case f == engine.FieldIO && p.Known.Has(engine.FieldCPUTime) && !j.hasChildren(e.Life):
			whose = "of a process without children, of which the CPU time is known"
		}
		if whose != "" {
			v.Unexplained++
			j.find(e.Life, "%s: %s is unknown, %s", s.Events, f, whose)
			return
		}
		v.Unknown++
		return
	}
	verdict, u := &v.Right, p.Usage
	within := func(what string, got, from, to uint64) {
		if got < from || got > to {
			verdict = &v.Wrong
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
		from, to := j.ownIO(e.Life, least, most)
		within("rchar", u.RChar, from.RChar, to.RChar)
		within("wchar", u.WChar, from.WChar, to.WChar)
		within("read_bytes", u.ReadBytes, from.ReadBytes, to.ReadBytes)
		within("write_bytes", u.WriteBytes, from.WriteBytes, to.WriteBytes)
	}
	*verdict++
}

// ownIO returns bounds of the I/O that the threads of a process did themselves until its EXIT. The
// rest of the end can read and write storage, but moves no bytes.
func (j *scorer) ownIO(l *truth.Life, least, most *truth.Used) (from, to truth.IO) {
	to = *most.IO
	switch own := most.LeaderIO; {
	case least.IO != nil: // and it told which children it had waited for
		return least.IO.Less(&least.Waited), to.Less(&least.Waited)
	case own != nil && oneThread(l):
		to = *own
	case own != nil && j.hasChildren(l): // for which it may have waited
		return truth.IO{RChar: own.RChar, WChar: own.WChar}, to
	}
	return truth.IO{RChar: to.RChar, WChar: to.WChar}, to
}

func oneThread(l *truth.Life) bool { return len(l.Threads) == 0 && !l.OpenThreads }

// hasChildren reports whether a life made others.
func (j *scorer) hasChildren(l *truth.Life) bool {
	for _, lives := range j.byPID {
		if slices.ContainsFunc(lives, func(c *truth.Life) bool { return c.Creator == l }) {
			return true
		}
	}
	return false
}
