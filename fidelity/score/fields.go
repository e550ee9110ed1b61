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

// scoreStamp scores the time of a delivered event by e, the first event that it reports.
func (j *scorer) scoreStamp(s *Seen, e *truth.Event) {
	j.scoreStampWithin(e.Process, s, e.Earliest, j.w.latest(e))
}

// scoreStampWithin scores a stamp that must be between two times.
func (j *scorer) scoreStampWithin(l *truth.Process, s *Seen, earliest, latest uint64) {
	if f := j.w.times(); f.during(s.Time, earliest, latest) {
		if f != nil && f.NoStamps {
			j.Stamp.Unknown++
			return
		}
		j.Stamp.Right++
		return
	}
	j.Stamp.Wrong++
	j.addFinding(l, "%s of %d is stamped %d, it happened between %d and %d", s.Events, s.TID, s.Time, earliest, latest)
}

// scoreFields scores the fields of a delivered event by the last event that it reports. If this
// last event is optional, the fields may also have the values before it.
func (j *scorer) scoreFields(s *Seen, events []*truth.Event) {
	last := len(events) - 1
	for last > 0 && j.w.optional(events[last]) {
		was := *j.Score
		j.scoreFieldsAt(s, events[last])
		if now, was := j.All(), was.All(); now.Wrong == was.Wrong && now.Stale == was.Stale && now.Unexplained == was.Unexplained {
			return
		}
		*j.Score = was
		last--
	}
	j.scoreFieldsAt(s, events[last])
}

func (j *scorer) scoreFieldsAt(s *Seen, e *truth.Event) {
	for f := range engine.Field(engine.NumFields) {
		v := &j.Fields[f]
		switch f {
		case engine.FieldStart:
			j.scoreStart(v, s, e)
		case engine.FieldExit:
			if e.Kind == engine.KindExit {
				j.scoreExit(v, s, e)
			}
		case engine.FieldCPUTime, engine.FieldPeakRSS, engine.FieldIO:
			if e.Kind == engine.KindExit {
				j.scoreUsed(v, s, e, f)
			}
		default:
			j.scoreField(v, s, e, f)
		}
	}
}

// scoreUnknown scores an unknown field. It is a defect if the kernel reports the field, or the
// fields that it is derived from, with this event. It is also a defect if /proc shows the field,
// the process paused until /proc was read, no event was lost meanwhile, and the source had time to
// read.
func (j *scorer) scoreUnknown(v *Counts, s *Seen, e *truth.Event, f engine.Field) {
	c := &j.w.Table.Fields[f]
	proc := c.Origin == engine.OriginProc && c.At&^c.Partial&e.Kind.Events() != 0 && readable(e, f) && !j.w.Unread && !j.inGap(e.Earliest, e.Latest+j.w.Hold)
	// The engine derives the field from fields that the kernel always reports.
	derived := c.Origin == engine.OriginDerived && c.Partial == 0
	if c.Brings(s.Events) && !(j.w.Cut && texts.Has(f)) || proc || derived {
		v.Unexplained++
		j.addFinding(e.Process, "%s: %s is unknown", s.Events, f)
		return
	}
	v.Unknown++
}

// readable reports whether /proc must have shown a field after e.
func readable(e *truth.Event, f engine.Field) bool {
	// An empty command line can't be distinguished from a hidden one.
	if f == engine.FieldArgs && e.State.Known.Has(f) && e.State.Value[f] == "" {
		return false
	}
	switch e.Kind {
	case engine.KindFork: // the source delays the read, and an exec makes it unnecessary
		return false
	case engine.KindIDChange:
		if !changed(e.ID).Has(f) { // the other ids are not read
			return false
		}
	}
	for _, next := range e.Process.Events[slices.Index(e.Process.Events, e)+1:] {
		switch {
		case next.Kind == engine.KindExec && e.Kind == engine.KindExec && ofImage.Has(f):
			return false // the read may get the next image
		case next.Kind == engine.KindIDChange && hides(next, e, f):
			return false // the read may get the later ids
		}
	}
	switch changed := changedLater(e); {
	case (ofImage | engine.FieldsIDs).Has(f) && changed.Has(engine.FieldArgs):
		return false // the read may get other arguments
	case paths.Has(f) && (changed.Has(engine.FieldMntNS) || changed&paths == paths):
		return false // the read may be during a change of the root or of mounts
	}
	return e.Read
}

// paths are relative to the root of the process.
const paths = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldCwd)

// changedLater returns the fields with other values in snapshots after e.
func changedLater(e *truth.Event) (fields engine.Fields) {
	for _, look := range e.Snapshots {
		for f := range engine.Field(engine.NumFields) {
			if (e.State.Known & look.State.Known).Has(f) && look.State.Value[f] != e.State.Value[f] {
				fields |= f.Set()
			}
		}
	}
	return fields
}

// texts are the fields that have separate records in a split event.
const texts = paths | engine.Fields(1<<engine.FieldArgs|1<<engine.FieldCgroup)

// ofImage are the fields that each exec sets.
const ofImage = engine.FieldsImage | 1<<engine.FieldComm | 1<<engine.FieldCaps

// hides reports whether a field read after e may show a later change of ids. The message of the
// change has only the real and effective ids, which may be equal to the ids of e.
func hides(change, e *truth.Event, f engine.Field) bool {
	same := func(f engine.Field) bool {
		return change.Unchanged || !change.State.Known.Has(f) || change.State.Value[f] == e.State.Value[f]
	}
	return change.ID&engine.ChangedUID != 0 && (changed(engine.ChangedUID).Has(f) || f == engine.FieldCaps) && same(engine.FieldUIDs) ||
		change.ID&engine.ChangedGID != 0 && changed(engine.ChangedGID).Has(f) && same(engine.FieldGIDs)
}

// changed returns the fields that a change of ids affects.
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
	if c&engine.ChangedPGID != 0 {
		s |= engine.FieldPGID.Set()
	}
	return s
}

// scoreField scores a field other than the start time and the exit status.
func (j *scorer) scoreField(v *Counts, s *Seen, e *truth.Event, f engine.Field) {
	p := s.Process
	if e.Unreachable.Has(f) {
		j.scoreUnreachable(v, s, e, f)
		return
	}
	if !e.State.Known.Has(f) && !e.Inside.Known.Has(f) {
		return
	}
	if !p.Known.Has(f) {
		j.scoreUnknown(v, s, e, f)
		return
	}
	got := j.value(p, f)
	cached := p.Cached.Has(f)
	verdict := &v.Right
	foreign := j.w.Foreign != nil
	switch {
	case got.cut && !foreign && !reaches(got.text, j.w.Table.Fields[f].Whole), f == engine.FieldArgs && !splits(p),
		f == engine.FieldPPID && !cached && !foreign && orphaned(e, got.text):
		j.recordWrong(v, s, e, f, got)
		return
	case got.cut && got.matches(&e.State, &e.Inside) && (foreign || !e.Read || e.MayCut.Has(f)):
		verdict = &v.Truncated
	case f == engine.FieldCgroup && e.State.Container != "" && !got.cut && got.is(e.State.Value[f]) && truth.ContainerOf(p) != e.State.Container:
		v.Wrong++
		j.addFinding(e.Process, "%s: the container of %s is %q, not %q", s.Events, got.text, truth.ContainerOf(p), e.State.Container)
		return
	case !got.cut && got.matches(&e.State, &e.Inside):
	case f == engine.FieldPPID && (got.kernel || cached) && got.matchesAround(e):
		// The parent ended about that time. Its end is not an event of this process.
	case f == engine.FieldPPID && adopted(e, got.text, j.w.latest(e)):
	case f == engine.FieldParentSignal && got.text == sigchld && mayBeOrphan(e, j.w.latest(e)):
	case cached && got.matchesOtherTime(e), f == engine.FieldPPID && cached && !got.kernel && adopted(e, got.text, truth.Forever):
		verdict = &v.Cached
	case cached && (!got.kernel && opened(e, f) || j.wasOpen(e, f)):
		return // at some earlier or later time the field had no ground truth
	case cached && j.stale(got, e):
		verdict = &v.Cached
	case j.stale(got, e):
		v.Stale++
		j.addFinding(e.Process, "%s: %s is %s, of another time, not %s", s.Events, f, short(got.text), short(e.State.Value[f]))
		return
	default:
		j.recordWrong(v, s, e, f, got)
		return
	}
	if c := &j.w.Table.Fields[f]; cached && got.kernel && c.At&e.Kind.Events() != 0 {
		v.Missed++
		if j.w.reportsAlways(e, f) {
			verdict = &v.Unexplained
			j.addFinding(e.Process, "%s: %s is cached, but the kernel reports it with this event", s.Events, f)
		}
	}
	*verdict++
}

// opened reports whether the field lacked ground truth at e or at some time after e.
func opened(e *truth.Event, f engine.Field) bool {
	for _, later := range e.Process.Events[slices.Index(e.Process.Events, e):] {
		if !later.State.Known.Has(f) || slices.ContainsFunc(later.Snapshots, func(l truth.Snapshot) bool { return !l.State.Known.Has(f) }) {
			return true
		}
	}
	return false
}

// wasOpen reports whether the field of e may come from an event without ground truth for it. It
// looks backwards for the last event that reports the field: first in the process, then, for an
// inherited field, in its creator before the fork. It passes over events that may be lost or may
// follow the fork. A value from /proc may come from any event.
func (j *scorer) wasOpen(e *truth.Event, f engine.Field) bool {
	row := &j.w.Table.Fields[f]
	// If the executable is read late from /proc, a process keeps its older entry leader.
	keeps := f == engine.FieldEntryLeader && j.w.Table.Fields[engine.FieldExe].Origin == engine.OriginProc
	before, born := e.Process.Events[:slices.Index(e.Process.Events, e)], e.Earliest
	for l := e.Process; ; l = l.Creator {
		for _, was := range slices.Backward(before) {
			open := !was.State.Known.Has(f) && !was.Inside.Known.Has(f)
			if was.Earliest > born || !row.At.Has(was.Kind.Events()) && !(open && row.Origin == engine.OriginProc) {
				continue
			}
			if was.Unchanged && !(open && row.Origin == engine.OriginProc) {
				continue // the event may be missing
			}
			if open || was.Latest <= born && !j.inGap(was.Earliest, was.Latest) && !keeps {
				return open
			}
		}
		if !inherited.Has(f) || l.Creator == nil {
			return false
		}
		before, born = l.Creator.Events, l.Events[0].Latest
	}
}

// parentOf returns the parent at birth, nil if it is not recorded.
func parentOf(l *truth.Process) *truth.Process {
	c := l.Creator
	for c != nil && strconv.Itoa(c.PID) != l.Events[0].State.Value[engine.FieldPPID] {
		c = c.Creator // the process was created with CLONE_PARENT
	}
	return c
}

// adopted reports whether ppid may be the parent at e because the original parent ended before
// until, and the ancestor ppid adopted the orphan.
func adopted(e *truth.Event, ppid string, until uint64) bool {
	parent := parentOf(e.Process)
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

const sigchld = "17" // the exit signal of an orphan

// mayBeOrphan reports whether the parent may have ended before until.
func mayBeOrphan(e *truth.Event, until uint64) bool {
	parent := parentOf(e.Process)
	return parent != nil && parent.Events[len(parent.Events)-1].Earliest <= until
}

// orphaned reports whether the parent with this pid had certainly ended before e.
func orphaned(e *truth.Event, ppid string) bool {
	parent := parentOf(e.Process)
	return parent != nil && strconv.Itoa(parent.PID) == ppid && parent.Ended() < e.Earliest
}

// scoreUnreachable scores a path that is unreachable from the process's root: such a path must be
// unknown or cached.
func (j *scorer) scoreUnreachable(v *Counts, s *Seen, e *truth.Event, f engine.Field) {
	got := j.value(s.Process, f)
	switch {
	case !s.Process.Known.Has(f):
		v.Right++
	case s.Process.Cached.Has(f) && got.matchesOtherTime(e):
		v.Cached++
	default:
		v.Wrong++
		j.addFinding(e.Process, "%s: %s is %s, which is unreachable from the process's root", s.Events, f, short(got.text))
	}
}

func (j *scorer) recordWrong(v *Counts, s *Seen, e *truth.Event, f engine.Field, got value) {
	v.Wrong++
	want := e.State.Value[f]
	if got.kernel && e.Inside.Known.Has(f) {
		want = e.Inside.Value[f]
	}
	kind := "reported"
	if s.Process.Cached.Has(f) {
		kind = "cached"
	}
	text := short(got.text)
	if got.cut {
		text += " (cut)"
	}
	if f == engine.FieldArgs && !splits(s.Process) {
		text += fmt.Sprintf(" %q", slices.Collect(s.Process.Arguments()))
	}
	j.addFinding(e.Process, "%s: %s is %s (%s), not %s", s.Events, f, text, kind, short(want))
}

// short quotes a text and limits its length.
func short(v string) string {
	const most = 200
	if len(v) > most {
		v = v[:most] + "..."
	}
	return "\"" + strings.ToValidUTF8(v, "?") + "\""
}

// splits reports whether Process.Arguments agrees with the command line.
func splits(p *engine.Process) bool {
	var all []byte
	for a := range p.Arguments() {
		all = append(append(all, a...), 0)
	}
	return bytes.Equal(all, p.Image.Args) || bytes.Equal(bytes.TrimSuffix(all, []byte{0}), p.Image.Args)
}

// scoreStart scores the start time by the clock readings around the fork.
func (j *scorer) scoreStart(v *Counts, s *Seen, e *truth.Event) {
	p, fork := s.Process, e.Process.Events[0]
	switch {
	case fork.Kind != engine.KindFork:
	case !p.Known.Has(engine.FieldStart):
		j.scoreUnknown(v, s, e, engine.FieldStart)
	case j.w.startedAt(e.Process, p.Start, max(p.StartUnit, 1)):
		v.Right++
	default:
		v.Wrong++
		j.addFinding(e.Process, "%s: started at %d (unit %d), not between %d and %d", s.Events, p.Start, p.StartUnit,
			fork.Earliest+j.w.BootOffset, fork.Latest+j.w.BootOffset)
	}
}

// startedAt reports whether a start time, rounded down to a unit, matches l.
func (w *Delivered) startedAt(l *truth.Process, start, unit uint64) bool {
	fork := l.Events[0]
	return start+unit > fork.Earliest+w.BootOffset && start <= fork.Latest+w.BootOffset
}

// scoreExit scores the status and the time of the end.
func (j *scorer) scoreExit(v *Counts, s *Seen, e *truth.Event) {
	p := s.Process
	x := p.Task.Exit
	switch {
	case !p.Known.Has(engine.FieldExit):
		j.scoreUnknown(v, s, e, engine.FieldExit)
	case x.WaitStatus != e.Status && unproven(j.w.Table.Fields[engine.FieldExit].Unproven, x.WaitStatus, e):
		v.Unknown++
	case !p.Exited || x.WaitStatus != e.Status || !decoded(&x):
		v.Wrong++
		j.addFinding(e.Process, "%s: wait status %#x (code %d, signal %d, core %v), not %#x; processes of the pid: %s", s.Events, x.WaitStatus, x.Code(),
			x.Signal(), x.CoreDumped(), e.Status, j.story(e.Process, j.ofPID(e.Process)))
	case !j.w.times().during(x.Time, e.Earliest, j.w.latest(e)):
		v.Wrong++
		j.addFinding(e.Process, "%s: ended at %d, not between %d and %d", s.Events, x.Time, e.Earliest, e.Latest)
	default:
		v.Right++
	}
}

// unproven reports whether the table lets the backend report a wrong status for the end e.
func unproven(u engine.Unproven, status int32, e *truth.Event) bool {
	const hup, intr, kill = 1, 2, 9
	reboot := (e.Status == hup || e.Status == intr) &&
		!e.Process.Events[0].State.Known.Has(engine.FieldPIDNS) // in a new namespace
	return u&engine.UnprovenReboot != 0 && reboot && (status == 0 || status == kill) ||
		u&engine.UnprovenLateReboot != 0 && reboot && status != kill ||
		u&engine.UnprovenThreadExit != 0 && e.Process.ByThread && (e.Status&0x7f != 0 || e.Status == 0) && status&0x7f == 0
}

// ofPID returns the delivered events with the pid of l, and the gaps.
func (j *scorer) ofPID(l *truth.Process) (seen []*Seen) {
	for i := range j.w.Single {
		if s := &j.w.Single[i]; s.Events == engine.EventGap || s.Process != nil && int(s.Process.PID) == l.PID {
			seen = append(seen, s)
		}
	}
	return seen
}

// decoded reports whether Code, Signal and CoreDumped of x agree with its wait status.
func decoded(x *engine.Exit) bool {
	switch s := unix.WaitStatus(x.WaitStatus); {
	case s.Exited():
		return x.Code() == s.ExitStatus() && x.Signal() == 0
	case s.Signaled():
		return x.Code() == 0 && x.Signal() == int(s.Signal()) && x.CoreDumped() == s.CoreDump()
	}
	return true
}

// value is a field of a delivered event.
type value struct {
	field  engine.Field
	text   string
	cut    bool // text is only a part of the value
	kernel bool // the field comes from the kernel, not from /proc

	foreign *Tolerance // the format of the values
}

func (j *scorer) value(p *engine.Process, f engine.Field) value {
	kernel := j.w.Table.Fields[f].Origin == engine.OriginKernel
	return value{f, truth.ValueOf(p, f), p.Truncated.Has(f), kernel, j.w.Foreign}
}

// is reports whether v is a correct report of want.
func (v value) is(want string) bool {
	want = v.foreign.as(v.field, want)
	if v.cut && v.foreign != nil { // other monitors truncate the end of a path
		return part(v.field, v.text, want) || strings.HasPrefix(want, v.text)
	}
	return !v.cut && v.text == want || v.cut && part(v.field, v.text, want)
}

// matches reports whether v is the value in s or inside. inside, the process's own view, takes
// precedence, as its paths begin at the process's root.
func (v value) matches(s, inside *truth.State) bool {
	seen := inside.Known.Has(v.field)
	if seen && v.is(inside.Value[v.field]) {
		return true
	}
	return s.Known.Has(v.field) && v.is(s.Value[v.field]) && (!seen || v.cut)
}

// matchesSnapshot reports whether v is in a snapshot of the process between e and the next event.
func (v value) matchesSnapshot(e *truth.Event) bool {
	return slices.ContainsFunc(e.Snapshots, func(l truth.Snapshot) bool { return v.matches(&l.State, new(truth.State)) })
}

// matchesAround reports whether v is the value of the event before e, or of a snapshot after e.
func (v value) matchesAround(e *truth.Event) bool {
	i := slices.Index(e.Process.Events, e)
	return v.matchesSnapshot(e) || i > 0 && v.matches(&e.Process.Events[i-1].State, &e.Process.Events[i-1].Inside)
}

// inherited are the fields that a child gets from its creator, independent of its birth.
const inherited = engine.FieldsImage | 1<<engine.FieldLogin

// matchesOtherTime reports whether the process had the value v before e, or may have inherited it
// from a creator. A field from /proc may also have a later value.
func (v value) matchesOtherTime(e *truth.Event) bool {
	if v.field == engine.FieldParentSignal && !v.kernel && v.text == sigchld && parentOf(e.Process) != nil {
		return true // the exit signal of an orphan
	}
	had := func(e *truth.Event) bool { return v.matches(&e.State, &e.Inside) || v.matchesSnapshot(e) }
	i := slices.Index(e.Process.Events, e)
	if slices.ContainsFunc(e.Process.Events[:i], had) {
		return true
	}
	if !v.kernel && (v.matchesSnapshot(e) || slices.ContainsFunc(e.Process.Events[i+1:], had)) {
		return true
	}
	if !inherited.Has(v.field) && e.Process.Events[0].State.Known.Has(v.field) {
		return false
	}
	l := e.Process
	for ; l.Creator != nil; l = l.Creator {
		if slices.ContainsFunc(l.Creator.Events, func(e *truth.Event) bool { return e.Earliest <= l.Events[0].Latest && had(e) }) {
			return true
		}
	}
	return l.Was != nil && v.matches(l.Was, new(truth.State))
}

// reportsAlways reports whether the backend always reports a field with an event like e. It does
// for all fields that its table has for FORK and EXEC, and for the fields of EXIT that belong to
// the end itself. Exceptions: a text beyond Whole is from /proc, and namespaces are missing at EXIT
// if the leader ended before other threads.
func (w *Delivered) reportsAlways(e *truth.Event, f engine.Field) bool {
	c := &w.Table.Fields[f]
	switch {
	case texts.Has(f) && (w.Cut || reaches(e.State.Value[f], c.Whole)):
		return false
	case e.Kind == engine.KindFork || e.Kind == engine.KindExec:
		return c.Brings(e.Kind.Events())
	case e.Kind != engine.KindExit:
		return false
	case engine.FieldsNS.Has(f) && f != engine.FieldUserNS:
		return c.Origin == engine.OriginKernel && c.At.Has(engine.EventExit) && oneThread(e.Process)
	}
	return c.Brings(engine.EventExit) && (engine.FieldsIDs.Has(f) || f == engine.FieldComm)
}

// part reports whether got may be the rest of a truncated text: the start of a command line, or the
// last directories of a path.
func part(f engine.Field, got, whole string) bool {
	if len(got) >= len(whole) {
		return false
	}
	if f == engine.FieldArgs || f == engine.FieldEnviron {
		return strings.HasPrefix(whole, got)
	}
	return got != "" && strings.HasSuffix(whole, "/"+got)
}

// reaches reports whether a truncated text is at least as long as the table promises.
func reaches(got string, whole engine.Extent) bool {
	names := strings.Count(strings.Trim(got, "/"), "/") + 1
	return whole.Bytes > 0 && len(got) >= whole.Bytes || whole.Names > 0 && names >= whole.Names
}
