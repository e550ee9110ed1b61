package score

import (
	"os"
	"runtime"
	"slices"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// used judges what an EXIT says of what the process has used: no less than it had said itself
// before its end, and no more than who waited for it was told, which has the rest of the end too.
// The I/O is without that of children, which both of these can have.
// Who has it from taskstats may mark as carried what can be less, or divided in another way, and as
// cut what is in whole KiB.
func (j *judge) used(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	p, least, most := s.Process, e.Life.Used, e.Used
	one := oneThread(e.Life)
	if most == nil || f == engine.FieldIO && most.IO == nil {
		return
	}
	if j.w.leavesOut(e) && len(j.byPID[p.PID]) > 1 {
		return // it may be the end of another one of the number: records come in any order
	}
	if !p.Known.Has(f) {
		again := j.w.rounds() && len(j.byPID[p.PID]) > 1 // the number had others
		whose := ""
		switch {
		case !j.w.Table.Fields[f].At.Has(s.Events & engine.EventExit):
		case one && !again:
			whose = "of a process with one thread"
		case f == engine.FieldIO && !j.w.rounds() && p.Known.Has(engine.FieldCPUTime) && !j.hasChildren(e.Life):
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
	verdict, unit := &v.Right, uint64(1)
	if j.w.rounds() && p.Carried.Has(f) {
		verdict = &v.Carried
	} else if j.w.rounds() && p.Truncated.Has(f) {
		verdict, unit = &v.Truncated, 1024
	}
	u := p.Usage
	within := func(what string, got, from, to uint64) {
		if got < from || got > to {
			verdict = &v.Wrong
			j.find(e.Life, "%s: %s is %d, not between %d and %d", s.Events, what, got, from, to)
		}
	}
	if least == nil {
		least = &truth.Used{}
	}
	carried := verdict == &v.Carried
	switch f {
	case engine.FieldCPUTime:
		const cut = 2000 // rusage has whole microseconds
		low := least.CPU
		if carried && !one {
			low = 0
		}
		within("the CPU time", u.UserTime+u.SystemTime+cut, low, most.CPU+2*cut)
		if !carried {
			within("the user time", u.UserTime+cut, least.User, truth.Forever)
			within("the system time", u.SystemTime+cut, least.System, truth.Forever)
		}
	case engine.FieldPeakRSS:
		low := least.PeakRSS
		if carried {
			low = 0
		} else if !j.hasChildren(e.Life) { // else most may be that of a child
			low = most.PeakRSS
		}
		high := most.PeakRSS
		if j.w.rounds() {
			high += rssSlack
		}
		within("the peak RSS", u.PeakRSS, low, high)
	case engine.FieldIO:
		from, to := j.ownIO(e.Life, least, most)
		within("rchar", u.RChar, from.RChar/unit*unit, to.RChar)
		within("wchar", u.WChar, from.WChar/unit*unit, to.WChar)
		within("read_bytes", u.ReadBytes, from.ReadBytes/unit*unit, to.ReadBytes)
		within("write_bytes", u.WriteBytes, from.WriteBytes/unit*unit, to.WriteBytes)
	}
	*verdict++
}

// rssSlack is by how much taskstats may say more than who waits for the process is told, whose
// figure the kernel takes a moment before. From Linux 6.2 on it counts pages by CPU, in three
// kinds, and adds what a CPU has to the sum by 32 pages, or twice as many as there are CPUs.
var rssSlack = uint64(3 * max(32, 2*runtime.NumCPU()) * runtime.NumCPU() * os.Getpagesize())

// ownIO returns bounds of the I/O that the threads of a process did themselves until its EXIT. The
// rest of the end can read and write storage, but moves no bytes.
func (j *judge) ownIO(l *truth.Life, least, most *truth.Used) (from, to truth.IO) {
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

// rounds reports whether the backend has what was used from taskstats.
func (w *Witness) rounds() bool { return w.Backend == "cnproc" || w.Backend == "taskstats" }

// hasChildren reports whether a life made others.
func (j *judge) hasChildren(l *truth.Life) bool {
	for _, lives := range j.byPID {
		if slices.ContainsFunc(lives, func(c *truth.Life) bool { return c.Creator == l }) {
			return true
		}
	}
	return false
}
