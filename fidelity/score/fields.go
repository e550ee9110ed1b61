package score

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// stamp judges the time of a delivered event by that of the first it reports.
func (j *judge) stamp(s *Seen, e *truth.Event) {
	if e.Earliest <= s.Time && s.Time <= latest(e, j.w.AfterEnd) {
		j.Stamp.Right++
		return
	}
	j.Stamp.Wrong++
	j.find(e.Life, "%s is stamped %d, it was between %d and %d", s.Events, s.Time, e.Earliest, e.Latest)
}

// fields judges what a delivered event says of its process, by the last thing that
// it reports. If that is optional, the event may also be without it.
func (j *judge) fields(s *Seen, events []*truth.Event) {
	last := len(events) - 1
	for last > 0 && events[last].Optional {
		was := *j.Score
		j.verdicts(s, events[last])
		if j.All().Wrong == was.All().Wrong {
			return
		}
		*j.Score = was
		last--
	}
	j.verdicts(s, events[last])
}

func (j *judge) verdicts(s *Seen, e *truth.Event) {
	for f := range engine.Field(engine.NumFields) {
		v := &j.Fields[f]
		switch f {
		case engine.FieldStart:
			j.start(v, s, e)
		case engine.FieldExit:
			if e.Kind == engine.KindExit {
				j.exit(v, s, e)
			}
		default:
			j.field(v, s, e, f)
		}
	}
}

// unknown counts a field that is not known. That is a defect where the kernel's event
// brings it, or where /proc does and the process stood still until it had been read.
func (j *judge) unknown(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	c := &j.w.Table.Fields[f]
	proc := c.Origin == engine.OriginProc && c.At&^c.Partial&e.Kind.Events() != 0 && readable(e, f)
	if c.Brings(s.Events) || proc {
		v.Unexplained++
		j.find(e.Life, "%s: %s is unknown", s.Events, f)
		return
	}
	v.Unknown++
}

// readable reports whether /proc could show a field after e, and had to.
func readable(e *truth.Event, f engine.Field) bool {
	switch e.Kind {
	case engine.KindFork: // the reading waits for an exec, which makes it needless
		return false
	case engine.KindIDChange: // the other ids are not read
		return e.Read && changed(e.ID).Has(f)
	}
	return e.Read
}

// changed returns the fields that a change of ids is about.
func changed(c engine.IDChange) (s engine.Fields) {
	if c&engine.ChangedUID != 0 {
		s |= engine.FieldUIDs.Set() | engine.FieldSUID.Set()
	}
	if c&engine.ChangedGID != 0 {
		s |= engine.FieldGIDs.Set() | engine.FieldSGID.Set()
	}
	if c&engine.ChangedSID != 0 {
		s |= engine.FieldSID.Set() | engine.FieldPGID.Set()
	}
	return s
}

// field judges a value other than the start time and the end.
func (j *judge) field(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	p := s.Process
	if e.Unreachable.Has(f) {
		j.unreachable(v, s, e, f)
		return
	}
	if !e.State.Told.Has(f) && !e.Inside.Told.Has(f) {
		return
	}
	if !p.Known.Has(f) {
		j.unknown(v, s, e, f)
		return
	}
	got := j.value(p, f)
	carried := p.Carried.Has(f)
	verdict := &v.Right
	switch {
	case got.cut && !reaches(got.text, j.w.Table.Fields[f].Whole), f == engine.FieldCmdline && !splits(p):
		j.wrong(v, s, e, f, got)
		return
	case got.cut && got.isOf(&e.State, &e.Inside) && (!e.Read || e.MayCut.Has(f)):
		verdict = &v.Truncated
	case !got.cut && got.isOf(&e.State, &e.Inside):
	case f == engine.FieldPPID && (got.kernel || carried) && got.isOfAbout(e):
		// The parent's end is not an event of this process: it was about then.
	case f == engine.FieldPPID && got.kernel && adopted(e, p.PPID, s.Time):
	case carried && got.isOfAnotherTime(e):
		verdict = &v.Carried
	case carried && !got.kernel && slices.ContainsFunc(e.Drift, func(l truth.Look) bool { return !l.State.Told.Has(f) }):
		return // it changed after the event, and the scenario does not say to what
	default:
		j.wrong(v, s, e, f, got)
		return
	}
	if c := &j.w.Table.Fields[f]; carried && got.kernel && c.At&e.Kind.Events() != 0 {
		v.Missed++
		if j.w.reportsAlways(e, f) {
			verdict = &v.Unexplained
			j.find(e.Life, "%s: %s is carried, though the kernel reports it with this event", s.Events, f)
		}
	}
	*verdict++
}

// adopted reports whether e is an end at which ppid may be the process's parent, because its
// own had ended: with PREEMPT_RT the parent can wait for a process, and end, before the
// kernel has told of that process's end. ppid is then a parent further up.
func adopted(e *truth.Event, ppid uint32, at uint64) bool {
	if e.Kind != engine.KindExit {
		return false
	}
	parent := e.Life.Creator
	for ; parent != nil; parent = parent.Creator {
		if end := parent.Events[len(parent.Events)-1]; end.Kind != engine.KindExit || end.Earliest > at {
			return false
		}
		if birth := parent.Events[0]; birth.State.Value[engine.FieldPPID] == strconv.FormatUint(uint64(ppid), 10) {
			return true
		}
	}
	return false
}

// unreachable judges a path that can't be reached: it has to be unknown, or marked as of another
// time. What /proc shows of it looks like any other path.
func (j *judge) unreachable(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	got := j.value(s.Process, f)
	switch {
	case !s.Process.Known.Has(f):
		v.Right++
	case !got.kernel:
	case s.Process.Carried.Has(f) && got.isOfAnotherTime(e):
		v.Carried++
	default:
		j.wrong(v, s, e, f, got)
	}
}

func (j *judge) wrong(v *Verdicts, s *Seen, e *truth.Event, f engine.Field, got value) {
	v.Wrong++
	want := e.State.Value[f]
	if got.kernel && e.Inside.Told.Has(f) {
		want = e.Inside.Value[f]
	}
	kind := "reported"
	if s.Process.Carried.Has(f) {
		kind = "carried"
	}
	text := short(got.text)
	if got.cut {
		text += " (cut)"
	}
	if f == engine.FieldCmdline && !splits(s.Process) {
		text += fmt.Sprintf(" %q", slices.Collect(s.Process.Args()))
	}
	j.find(e.Life, "%s: %s is %s (%s), not %s", s.Events, f, text, kind, short(want))
}

// short quotes a text of which only the beginning is shown.
func short(v string) string {
	const most = 200
	if len(v) > most {
		v = v[:most] + "..."
	}
	return "\"" + strings.ToValidUTF8(v, "?") + "\""
}

// splits reports whether the arguments are those of the command line.
func splits(p *engine.Process) bool {
	var all []byte
	for a := range p.Args() {
		all = append(append(all, a...), 0)
	}
	return bytes.Equal(all, p.Cmdline) || bytes.Equal(bytes.TrimSuffix(all, []byte{0}), p.Cmdline)
}

// start judges the start time by the readings around the fork.
func (j *judge) start(v *Verdicts, s *Seen, e *truth.Event) {
	p, fork := s.Process, e.Life.Events[0]
	switch {
	case fork.Kind != engine.KindFork:
	case !p.Known.Has(engine.FieldStart):
		j.unknown(v, s, e, engine.FieldStart)
	case j.startedAt(e.Life, p.Start, max(p.StartUnit, 1)):
		v.Right++
	default:
		v.Wrong++
		j.find(e.Life, "%s: started at %d (unit %d), it was between %d and %d", s.Events, p.Start, p.StartUnit,
			fork.Earliest+j.w.BootOffset, fork.Latest+j.w.BootOffset)
	}
}

// startedAt reports whether a start time, rounded down to a unit, is that of a life.
func (j *judge) startedAt(l *truth.Life, start, unit uint64) bool {
	fork := l.Events[0]
	return start+unit > fork.Earliest+j.w.BootOffset && start <= fork.Latest+j.w.BootOffset
}

// exit judges the status and the time of the end.
func (j *judge) exit(v *Verdicts, s *Seen, e *truth.Event) {
	p := s.Process
	x := p.Task.Exit
	switch {
	case !p.Known.Has(engine.FieldExit):
		j.unknown(v, s, e, engine.FieldExit)
	case !p.Exited || x.WaitStatus != e.Status || !decoded(&x):
		v.Wrong++
		j.find(e.Life, "%s: wait status %#x (code %d, signal %d, core %v), not %#x", s.Events, x.WaitStatus, x.Code(), x.Signal(),
			x.CoreDumped(), e.Status)
	case x.Time < e.Earliest || x.Time > latest(e, j.w.AfterEnd):
		v.Wrong++
		j.find(e.Life, "%s: ended at %d, it was between %d and %d", s.Events, x.Time, e.Earliest, e.Latest)
	default:
		v.Right++
	}
}

// decoded reports whether code, signal and core bit are those of the wait status.
func decoded(x *engine.Exit) bool {
	switch s := unix.WaitStatus(x.WaitStatus); {
	case s.Exited():
		return x.Code() == s.ExitStatus() && x.Signal() == 0
	case s.Signaled():
		return x.Code() == 0 && x.Signal() == int(s.Signal()) && x.CoreDumped() == s.CoreDump()
	}
	return true
}
