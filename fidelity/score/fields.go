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

// stamp scores the time of a delivered event by that of the first it reports.
func (j *scorer) stamp(s *Seen, e *truth.Event) {
	j.within(e.Life, s, e.Earliest, j.w.latest(e))
}

// within scores a stamp that has to be between two times.
func (j *scorer) within(l *truth.Life, s *Seen, earliest, latest uint64) {
	if f := j.w.times(); f.during(s.Time, earliest, latest) {
		if f != nil && f.NoStamps {
			j.Stamp.Unknown++
			return
		}
		j.Stamp.Right++
		return
	}
	j.Stamp.Wrong++
	j.find(l, "%s of %d is stamped %d, it was between %d and %d", s.Events, s.TID, s.Time, earliest, latest)
}

// fields scores what a delivered event says of its process, by the last thing that
// it reports. If that is optional the event may also be without it.
func (j *scorer) fields(s *Seen, events []*truth.Event) {
	last := len(events) - 1
	for last > 0 && j.w.optional(events[last]) {
		was := *j.Score
		j.verdicts(s, events[last])
		if now, was := j.All(), was.All(); now.Wrong == was.Wrong && now.Stale == was.Stale && now.Unexplained == was.Unexplained {
			return
		}
		*j.Score = was
		last--
	}
	j.verdicts(s, events[last])
}

func (j *scorer) verdicts(s *Seen, e *truth.Event) {
	for f := range engine.Field(engine.NumFields) {
		v := &j.Fields[f]
		switch f {
		case engine.FieldStart:
			j.start(v, s, e)
		case engine.FieldExit:
			if e.Kind == engine.KindExit {
				j.exit(v, s, e)
			}
		case engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO:
			if e.Kind == engine.KindExit {
				j.used(v, s, e, f)
			}
		default:
			j.field(v, s, e, f)
		}
	}
}

// unknown counts a field that is not known. That is a defect where the kernel's event brings it
// or what it is derived from, or where /proc does and the process stood still until it had been
// read, nothing was lost meanwhile, and the source had the time to read.
func (j *scorer) unknown(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	c := &j.w.Table.Fields[f]
	proc := c.Origin == engine.OriginProc && c.At&^c.Partial&e.Kind.Events() != 0 && readable(e, f) && !j.w.Unread && !j.inGap(e.Earliest, e.Latest+j.w.Hold)
	// The engine derives it from fields that the kernel always brings.
	derived := c.Origin == engine.OriginDerived && c.Partial == 0
	if c.Brings(s.Events) && !(j.w.Cut && texts.Has(f)) || proc || derived {
		v.Unexplained++
		j.find(e.Life, "%s: %s is unknown", s.Events, f)
		return
	}
	v.Unknown++
}

// readable reports whether /proc could show a field after e, and had to.
func readable(e *truth.Event, f engine.Field) bool {
	// Of a process without arguments it shows what it does of one that hides them.
	if f == engine.FieldCmdline && e.State.Told.Has(f) && e.State.Value[f] == "" {
		return false
	}
	switch e.Kind {
	case engine.KindFork: // the reading waits for an exec, which makes it needless
		return false
	case engine.KindIDChange:
		if !changed(e.ID).Has(f) { // the other ids are not read
			return false
		}
	}
	for _, next := range e.Life.Events[slices.Index(e.Life.Events, e)+1:] {
		switch {
		case next.Kind == engine.KindExec && e.Kind == engine.KindExec && ofImage.Has(f):
			return false // it can be of the next image
		case next.Kind == engine.KindIDChange && hides(next, e, f):
			return false // it can have been read after they were set
		}
	}
	switch changed := changedLater(e); {
	case (ofImage | engine.FieldsIDs).Has(f) && changed.Has(engine.FieldCmdline):
		return false // it can have been read while the process showed other arguments
	case paths.Has(f) && (changed.Has(engine.FieldMntNS) || changed&paths == paths):
		return false // and on the way to another root, or to other mounts
	}
	return e.Read
}

// paths are as the process sees them from its root.
const paths = engine.Fields(1<<engine.FieldFilename | 1<<engine.FieldCwd)

// changedLater returns the fields of which looks after e have shown other values.
func changedLater(e *truth.Event) (fields engine.Fields) {
	for _, look := range e.Drift {
		for f := range engine.Field(engine.NumFields) {
			if (e.State.Told & look.State.Told).Has(f) && look.State.Value[f] != e.State.Value[f] {
				fields |= f.Set()
			}
		}
	}
	return fields
}

// texts are the fields that split records have in records of their own.
const texts = paths | engine.Fields(1<<engine.FieldCmdline|1<<engine.FieldCgroup)

// ofImage are the fields that each exec sets.
const ofImage = engine.Fields(1<<engine.FieldComm | 1<<engine.FieldFilename | 1<<engine.FieldExecutable | 1<<engine.FieldExecPath |
	1<<engine.FieldCmdline | 1<<engine.FieldEnviron | 1<<engine.FieldCaps)

// hides reports whether a field that was read after e may be that of a later change of ids, whose
// message has the real and the effective ids alone: they are those of e, or may be.
func hides(change, e *truth.Event, f engine.Field) bool {
	same := func(f engine.Field) bool {
		return change.Unchanged || !change.State.Told.Has(f) || change.State.Value[f] == e.State.Value[f]
	}
	return change.ID&engine.ChangedUID != 0 && (changed(engine.ChangedUID).Has(f) || f == engine.FieldCaps) && same(engine.FieldUIDs) ||
		change.ID&engine.ChangedGID != 0 && changed(engine.ChangedGID).Has(f) && same(engine.FieldGIDs)
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

// field scores a value other than the start time and the end.
func (j *scorer) field(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
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
	foreign := j.w.Foreign != nil
	switch {
	case got.cut && !foreign && !reaches(got.text, j.w.Table.Fields[f].Whole), f == engine.FieldCmdline && !splits(p),
		f == engine.FieldPPID && !carried && !foreign && orphaned(e, got.text):
		j.wrong(v, s, e, f, got)
		return
	case got.cut && got.isOf(&e.State, &e.Inside) && (foreign || !e.Read || e.MayCut.Has(f)):
		verdict = &v.Truncated
	case f == engine.FieldCgroup && e.State.Container != "" && !got.cut && got.is(e.State.Value[f]) && truth.ContainerOf(p) != e.State.Container:
		v.Wrong++
		j.find(e.Life, "%s: the container of %s is %q, not %q", s.Events, got.text, truth.ContainerOf(p), e.State.Container)
		return
	case !got.cut && got.isOf(&e.State, &e.Inside):
	case f == engine.FieldPPID && (got.kernel || carried) && got.isOfAbout(e):
		// The parent's end is not an event of this process: it was about then.
	case f == engine.FieldPPID && adopted(e, got.text, j.w.latest(e)):
	case f == engine.FieldExitSignal && got.text == sigchld && mayBeOrphan(e, j.w.latest(e)):
	case carried && got.isOfAnotherTime(e), f == engine.FieldPPID && carried && !got.kernel && adopted(e, got.text, truth.Forever):
		verdict = &v.Carried
	case carried && (!got.kernel && opened(e, f) || j.wasOpen(e, f)):
		return // it was something else before or after, and the scenario does not say what
	case carried && j.stale(got, e):
		verdict = &v.Carried
	case j.stale(got, e):
		v.Stale++
		j.find(e.Life, "%s: %s is %s, of another time, not %s", s.Events, f, short(got.text), short(e.State.Value[f]))
		return
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

// opened reports whether a field changed after e to what is not told.
func opened(e *truth.Event, f engine.Field) bool {
	for _, later := range e.Life.Events[slices.Index(e.Life.Events, e):] {
		if !later.State.Told.Has(f) || slices.ContainsFunc(later.Drift, func(l truth.Look) bool { return !l.State.Told.Has(f) }) {
			return true
		}
	}
	return false
}

// wasOpen reports whether the last event before e that brings a field does not tell what it was, or
// an earlier one where the later ones may be lost or be of after a fork. What a child has of its
// creator an event of the creator brought. What is read from /proc can be of any event since, and a
// process keeps an entry leader of before where an executable from /proc is of another time.
func (j *scorer) wasOpen(e *truth.Event, f engine.Field) bool {
	row := &j.w.Table.Fields[f]
	keeps := f == engine.FieldEntry && j.w.Table.Fields[engine.FieldFilename].Origin == engine.OriginProc
	before, born := e.Life.Events[:slices.Index(e.Life.Events, e)], e.Earliest
	for l := e.Life; ; l = l.Creator {
		for _, was := range slices.Backward(before) {
			open := !was.State.Told.Has(f) && !was.Inside.Told.Has(f)
			if was.Earliest > born || !row.At.Has(was.Kind.Events()) && !(open && row.Origin == engine.OriginProc) {
				continue
			}
			if was.Unchanged && !(open && row.Origin == engine.OriginProc) {
				continue // it need not be delivered
			}
			if open || was.Latest <= born && !j.inGap(was.Earliest, was.Latest) && !keeps {
				return open
			}
		}
		if !handedOn.Has(f) || l.Creator == nil {
			return false
		}
		before, born = l.Creator.Events, l.Events[0].Latest
	}
}

// parentOf returns the parent that a process was born of, nil if nothing is told of that.
func parentOf(l *truth.Life) *truth.Life {
	c := l.Creator
	for c != nil && strconv.Itoa(c.PID) != l.Events[0].State.Value[engine.FieldPPID] {
		c = c.Creator // the process was made with CLONE_PARENT
	}
	return c
}

// adopted reports whether ppid may be the process's parent at an event until a time, because its
// own had ended: then it is one further up, the nearest that adopts orphans.
func adopted(e *truth.Event, ppid string, until uint64) bool {
	parent := parentOf(e.Life)
	if parent == nil || parent.Events[len(parent.Events)-1].Earliest > until {
		return false
	}
	for ; parent != nil; parent = parentOf(parent) {
		if parent.Events[0].State.Value[engine.FieldPPID] == ppid {
			return true
		}
	}
	return false
}

const sigchld = "17" // which an orphan's parent gets

// mayBeOrphan reports whether the parent may have ended by a time.
func mayBeOrphan(e *truth.Event, until uint64) bool {
	parent := parentOf(e.Life)
	return parent != nil && parent.Events[len(parent.Events)-1].Earliest <= until
}

// orphaned reports whether the parent with that pid had certainly ended before e.
func orphaned(e *truth.Event, ppid string) bool {
	parent := parentOf(e.Life)
	return parent != nil && strconv.Itoa(parent.PID) == ppid && parent.Ended() < e.Earliest
}

// unreachable scores a path that can't be reached: it has to be unknown, or marked as of another
// time.
func (j *scorer) unreachable(v *Verdicts, s *Seen, e *truth.Event, f engine.Field) {
	got := j.value(s.Process, f)
	switch {
	case !s.Process.Known.Has(f):
		v.Right++
	case s.Process.Carried.Has(f) && got.isOfAnotherTime(e):
		v.Carried++
	default:
		v.Wrong++
		j.find(e.Life, "%s: %s is %s, which can't be reached from the process's root", s.Events, f, short(got.text))
	}
}

func (j *scorer) wrong(v *Verdicts, s *Seen, e *truth.Event, f engine.Field, got value) {
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

// start scores the start time by the readings around the fork.
func (j *scorer) start(v *Verdicts, s *Seen, e *truth.Event) {
	p, fork := s.Process, e.Life.Events[0]
	switch {
	case fork.Kind != engine.KindFork:
	case !p.Known.Has(engine.FieldStart):
		j.unknown(v, s, e, engine.FieldStart)
	case j.w.startedAt(e.Life, p.Start, max(p.StartUnit, 1)):
		v.Right++
	default:
		v.Wrong++
		j.find(e.Life, "%s: started at %d (unit %d), it was between %d and %d", s.Events, p.Start, p.StartUnit,
			fork.Earliest+j.w.BootOffset, fork.Latest+j.w.BootOffset)
	}
}

// startedAt reports whether a start time, rounded down to a unit, is that of a life.
func (w *Witness) startedAt(l *truth.Life, start, unit uint64) bool {
	fork := l.Events[0]
	return start+unit > fork.Earliest+w.BootOffset && start <= fork.Latest+w.BootOffset
}

// exit scores the status and the time of the end.
func (j *scorer) exit(v *Verdicts, s *Seen, e *truth.Event) {
	p := s.Process
	x := p.Task.Exit
	switch {
	case !p.Known.Has(engine.FieldExit):
		j.unknown(v, s, e, engine.FieldExit)
	case !p.Exited || x.WaitStatus != e.Status || !decoded(&x):
		v.Wrong++
		j.find(e.Life, "%s: wait status %#x (code %d, signal %d, core %v), not %#x; of the pid are %s", s.Events, x.WaitStatus, x.Code(),
			x.Signal(), x.CoreDumped(), e.Status, j.story(e.Life, j.ofPID(e.Life)))
	case !j.w.times().during(x.Time, e.Earliest, j.w.latest(e)):
		v.Wrong++
		j.find(e.Life, "%s: ended at %d, it was between %d and %d", s.Events, x.Time, e.Earliest, e.Latest)
	default:
		v.Right++
	}
}

// ofPID returns what was delivered of processes with the pid of a life, and the gaps.
func (j *scorer) ofPID(l *truth.Life) (seen []*Seen) {
	for i := range j.w.Single {
		if s := &j.w.Single[i]; s.Events == engine.EventGap || s.Process != nil && int(s.Process.PID) == l.PID {
			seen = append(seen, s)
		}
	}
	return seen
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

// value is what a delivered event says of a field.
type value struct {
	field  engine.Field
	text   string
	cut    bool // text is a part
	kernel bool // the field comes from the kernel, else from /proc

	foreign *Foreign // whose form of values it has
}

func (j *scorer) value(p *engine.Process, f engine.Field) value {
	kernel := j.w.Table.Fields[f].Origin == engine.OriginKernel
	return value{f, truth.ValueOf(p, f), p.Truncated.Has(f), kernel, j.w.Foreign}
}

// is reports whether a process of which want is true can be reported so.
func (v value) is(want string) bool {
	want = v.foreign.as(v.field, want)
	if v.cut && v.foreign != nil { // others keep the beginning of a path
		return part(v.field, v.text, want) || strings.HasPrefix(want, v.text)
	}
	return !v.cut && v.text == want || v.cut && part(v.field, v.text, want)
}

// isOf reports whether v is the value of a state, or what the process saw itself, whose paths
// begin at its root.
func (v value) isOf(s, inside *truth.State) bool {
	seen := inside.Told.Has(v.field)
	if seen && v.is(inside.Value[v.field]) {
		return true
	}
	return s.Told.Has(v.field) && v.is(s.Value[v.field]) && (!seen || v.cut)
}

// isOfLook reports whether v is what a look at the process showed between e and the next
// event.
func (v value) isOfLook(e *truth.Event) bool {
	return slices.ContainsFunc(e.Drift, func(l truth.Look) bool { return v.isOf(&l.State, new(truth.State)) })
}

// isOfAbout reports whether v is of the event before e, or of a look after e.
func (v value) isOfAbout(e *truth.Event) bool {
	i := slices.Index(e.Life.Events, e)
	return v.isOfLook(e) || i > 0 && v.isOf(&e.Life.Events[i-1].State, &e.Life.Events[i-1].Inside)
}

// handedOn are the fields that a child has of its creator, whatever it is told at its birth.
var handedOn = engine.SetOf(engine.FieldFilename, engine.FieldExecutable, engine.FieldExecPath, engine.FieldCmdline,
	engine.FieldEnviron, engine.FieldLogin)

// isOfAnotherTime reports whether the process had v before e, or whether its creators had before
// its birth what it inherits, or may inherit where the birth does not tell; where the field comes
// from /proc, v can also be of later.
func (v value) isOfAnotherTime(e *truth.Event) bool {
	if v.field == engine.FieldExitSignal && !v.kernel && v.text == sigchld && parentOf(e.Life) != nil {
		return true // the exit signal of an orphan
	}
	had := func(e *truth.Event) bool { return v.isOf(&e.State, &e.Inside) || v.isOfLook(e) }
	i := slices.Index(e.Life.Events, e)
	if slices.ContainsFunc(e.Life.Events[:i], had) {
		return true
	}
	if !v.kernel && (v.isOfLook(e) || slices.ContainsFunc(e.Life.Events[i+1:], had)) {
		return true
	}
	if !handedOn.Has(v.field) && e.Life.Events[0].State.Told.Has(v.field) {
		return false
	}
	l := e.Life
	for ; l.Creator != nil; l = l.Creator {
		if slices.ContainsFunc(l.Creator.Events, func(e *truth.Event) bool { return e.Earliest <= l.Events[0].Latest && had(e) }) {
			return true
		}
	}
	return l.Was != nil && v.isOf(l.Was, new(truth.State))
}

// reportsAlways reports whether the backend reports a field with e in every process: all that its
// table contains of FORK and EXEC, and of EXIT what belongs to the end itself. What goes beyond
// Whole of a text is from /proc. Namespaces are missing at EXIT if the leader ended before other
// threads.
func (w *Witness) reportsAlways(e *truth.Event, f engine.Field) bool {
	c := &w.Table.Fields[f]
	switch {
	case texts.Has(f) && (w.Cut || reaches(e.State.Value[f], c.Whole)):
		return false
	case e.Kind == engine.KindFork || e.Kind == engine.KindExec:
		return c.Brings(e.Kind.Events())
	case e.Kind != engine.KindExit:
		return false
	case engine.FieldsNS.Has(f) && f != engine.FieldUserNS:
		return c.Origin == engine.OriginKernel && c.At.Has(engine.EventExit) && oneThread(e.Life)
	}
	return c.Brings(engine.EventExit) && (engine.FieldsIDs.Has(f) || f == engine.FieldComm)
}

// part reports whether got is what may be left of a command line or a path that is cut:
// the beginning of the one, the last directories of the other.
func part(f engine.Field, got, whole string) bool {
	if len(got) >= len(whole) {
		return false
	}
	if f == engine.FieldCmdline || f == engine.FieldEnviron {
		return strings.HasPrefix(whole, got)
	}
	return got != "" && strings.HasSuffix(whole, "/"+got)
}

// reaches reports whether a cut text has the extent that is known in any case.
func reaches(got string, whole engine.Extent) bool {
	names := strings.Count(strings.Trim(got, "/"), "/") + 1
	return whole.Bytes > 0 && len(got) >= whole.Bytes || whole.Names > 0 && names >= whole.Names
}
