package score

import (
	"slices"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// scoreUsed scores the resource usage of an EXIT event. The lower bound is the usage that the
// process itself recorded before its end. The upper bound is the usage that its parent got from
// wait4(2), which includes the rest of the exit. Both bounds can include the I/O of children; the
// event does not.
func (j *scorer) scoreUsed(v *Counts, s *Seen, e *truth.Event, f engine.Field) {
	p, least, most := s.Process, e.Process.Used, e.Used
	one := oneThread(e.Process)
	if most == nil || f == engine.FieldIO && most.IO == nil {
		return
	}
	if !p.Known.Has(f) {
		whose := ""
		switch {
		case !j.w.Table.Fields[f].At.Has(s.Events & engine.EventExit):
		case one:
			whose = "of a process with one thread"
		case f == engine.FieldIO && p.Known.Has(engine.FieldCPUTime) && !j.hasChildren(e.Process):
			whose = "of a process without children, of which the CPU time is known"
		}
		if whose != "" {
			v.Unexplained++
			j.addFinding(e.Process, "%s: %s is unknown, %s", s.Events, f, whose)
			return
		}
		v.Unknown++
		return
	}
	verdict, u := &v.Right, p.Usage
	within := func(what string, got, from, to uint64) {
		if got < from || got > to {
			verdict = &v.Wrong
			j.addFinding(e.Process, "%s: %s is %d, not between %d and %d", s.Events, what, got, from, to)
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
		if !j.hasChildren(e.Process) { // else the upper bound may be the peak of a child
			low = most.PeakRSS
		}
		within("the peak RSS", u.PeakRSS, low, most.PeakRSS)
	case engine.FieldIO:
		from, to := j.ownIO(e.Process, least, most)
		within("rchar", u.RChar, from.RChar, to.RChar)
		within("wchar", u.WChar, from.WChar, to.WChar)
		within("read_bytes", u.ReadBytes, from.ReadBytes, to.ReadBytes)
		within("write_bytes", u.WriteBytes, from.WriteBytes, to.WriteBytes)
	}
	*verdict++
}

// ownIO returns bounds for the I/O of the process's own threads until its EXIT. The rest of the
// exit can read and write storage, but transfers no bytes.
func (j *scorer) ownIO(l *truth.Process, least, most *truth.Used) (from, to truth.IO) {
	to = *most.IO
	switch own := most.LeaderIO; {
	case least.IO != nil: // the process also recorded the I/O of children that it waited for
		return least.IO.Less(&least.Waited), to.Less(&least.Waited)
	case own != nil && oneThread(l):
		to = *own
	case own != nil && j.hasChildren(l): // it may have waited for some
		return truth.IO{RChar: own.RChar, WChar: own.WChar}, to
	}
	return truth.IO{RChar: to.RChar, WChar: to.WChar}, to
}

func oneThread(l *truth.Process) bool { return len(l.Threads) == 0 && !l.OpenThreads }

// hasChildren reports whether l has created processes.
func (j *scorer) hasChildren(l *truth.Process) bool {
	for _, processes := range j.byPID {
		if slices.ContainsFunc(processes, func(c *truth.Process) bool { return c.Creator == l }) {
			return true
		}
	}
	return false
}
