package score

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// drifting are the fields that change without a kind of event that says so: what
// /proc shows of them can be of any time after the event.
const drifting = engine.FieldsNS | engine.Fields(1<<engine.FieldPPID|1<<engine.FieldPGID|1<<engine.FieldCaps|
	1<<engine.FieldTTY|1<<engine.FieldCwd|1<<engine.FieldCgroup)

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

// brings reports whether the table says that events as this one bring the field.
func (j *judge) brings(s *Seen, f engine.Field) bool { return j.w.Table.Fields[f].At&s.Events != 0 }

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

func (j *judge) field(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	p := s.Process
	if !e.State.Told.Has(f) && !e.Inside.Told.Has(f) {
		return
	}
	if !p.Known.Has(f) {
		j.unknown(v, s, e, f)
		return
	}
	c := &j.w.Table.Fields[f]
	got := truth.ValueOf(p, f)
	same := func(o *truth.Event) bool {
		if c.Origin == engine.OriginKernel && o.Inside.Told.Has(f) {
			return o.Inside.Value[f] == got
		}
		return o.State.Told.Has(f) && o.State.Value[f] == got
	}
	i := slices.Index(e.Life.Events, e)
	earlier, later := e.Life.Events[:i], e.Life.Events[i+1:]
	switch {
	case p.Truncated.Has(f):
		isPart := part(f, got, e.State.Value[f]) || part(f, got, e.Inside.Value[f])
		if !isPart || !reaches(got, c.Whole) || e.Read && !e.MayCut.Has(f) {
			j.wrong(v, s, e, f, got+" (cut)")
			return
		}
		v.Truncated++
	case f == engine.FieldCmdline && !splits(p):
		j.wrong(v, s, e, f, fmt.Sprintf("%q", slices.Collect(p.Args())))
	case same(e):
		v.Right++
	case c.Origin == engine.OriginProc && drifting.Has(f) && (j.drifted(e, f, got) || slices.ContainsFunc(later, same)):
		v.Right++
	case c.Origin == engine.OriginProc && drifting.Has(f) && slices.ContainsFunc(e.Drift, func(l truth.Look) bool { return !l.State.Told.Has(f) }):
		// It changed after the event, and the scenario does not say to what.
	case f == engine.FieldPPID && (j.drifted(e, f, got) || i > 0 && same(earlier[i-1])):
		// The parent's end is not an event of this process: it was about then.
		v.Right++
	case !j.brings(s, f) && slices.ContainsFunc(earlier, same):
		v.Stale++
	default:
		j.wrong(v, s, e, f, got)
	}
}

// drifted reports whether the process had a value at a look before its next event.
func (j *judge) drifted(e *truth.Event, f engine.Field, got string) bool {
	return slices.ContainsFunc(e.Drift, func(l truth.Look) bool { return l.State.Told.Has(f) && l.State.Value[f] == got })
}

func (j *judge) wrong(v *Verdicts, s *Seen, e *truth.Event, f engine.Field, got string) {
	v.Wrong++
	want := e.State.Value[f]
	if j.w.Table.Fields[f].Origin == engine.OriginKernel && e.Inside.Told.Has(f) {
		want = e.Inside.Value[f]
	}
	j.find(e.Life, "%s: %s is %s, not %s", s.Events, f, short(got), short(want))
}

// short quotes a text of which only the beginning is shown.
func short(v string) string {
	const most = 200
	if len(v) > most {
		v = v[:most] + "..."
	}
	return "\"" + strings.ToValidUTF8(v, "?") + "\""
}

// part reports whether got is what may be left of a command line or a path that is cut:
// the beginning of the one, the last directories of the other.
func part(f engine.Field, got, whole string) bool {
	if len(got) >= len(whole) {
		return false
	}
	if f == engine.FieldCmdline {
		return strings.HasPrefix(whole, got)
	}
	return got != "" && strings.HasSuffix(whole, "/"+got)
}

// splits reports whether the arguments are those of the command line.
func splits(p *engine.Process) bool {
	var all []byte
	for a := range p.Args() {
		all = append(append(all, a...), 0)
	}
	return bytes.Equal(all, p.Cmdline) || bytes.Equal(bytes.TrimSuffix(all, []byte{0}), p.Cmdline)
}

// reaches reports whether a cut text has the extent that is known in any case.
func reaches(got string, whole engine.Extent) bool {
	names := strings.Count(strings.Trim(got, "/"), "/") + 1
	return whole.Bytes > 0 && len(got) >= whole.Bytes || whole.Names > 0 && names >= whole.Names
}

// start judges the start time by the readings around the fork.
func (j *judge) start(v *Verdicts, s *Seen, e *truth.Event) {
	p, fork := s.Process, e.Life.Events[0]
	switch {
	case fork.Kind != engine.KindFork:
	case !p.Known.Has(engine.FieldStart):
		j.unknown(v, s, e, engine.FieldStart)
	case p.Start+max(p.StartUnit, 1) > fork.Earliest+j.w.BootOffset && p.Start <= fork.Latest+j.w.BootOffset:
		v.Right++
	default:
		v.Wrong++
		j.find(e.Life, "%s: started at %d (unit %d), it was between %d and %d", s.Events, p.Start, p.StartUnit,
			fork.Earliest+j.w.BootOffset, fork.Latest+j.w.BootOffset)
	}
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
