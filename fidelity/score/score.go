package score

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Seen is one delivered event.
type Seen struct {
	Events  engine.Events
	ID      engine.IDChange
	Time    uint64    // stamp of the event
	Wall    time.Time // zero if the wall time was not recorded
	At      uint64    // time of delivery
	Tracer  uint32    // of PTRACE, or the process that wrote, of CGROUP_CHANGE
	OldPPID uint32    // of a REPARENT
	Failed  engine.FailedExec
	NS      engine.NSChange
	Thread  bool // event of the single thread TID
	TID     uint32
	Parts   []engine.Part
	Gap     engine.Gap      // for GAP
	Process *engine.Process // a clone
	// Table describes how Process differed from the process in the queue's table, looked up by
	// pid and by identity at delivery. It is empty if they agree or were not compared.
	Table string
	// Leaders are the session leader and the group leader from the queue's table. An entry is
	// nil if the table lacks the process. Leaders is nil if the leaders were not looked up.
	Leaders *[2]*engine.Identity
	// Ended are the leaders and ancestors that the event's output shows as ended.
	Ended []engine.Identity
}

// SeenOf returns a copy of an event that was delivered at the given time.
func SeenOf(ev *engine.Event, at uint64) Seen {
	return Seen{
		Events: ev.Events, ID: ev.IDChange, Time: ev.Time, Wall: ev.Wall, At: at, Tracer: cmp.Or(ev.Tracer.PID, ev.CgroupChangeBy.PID), OldPPID: ev.OldPPID, Failed: ev.Failed, NS: ev.NSChange,
		Thread: ev.Thread, TID: ev.TID, Parts: slices.Clone(ev.Parts), Gap: ev.Gap, Process: ev.Process.Clone(),
	}
}

// Delivered holds all events that one backend delivered during a run, in the order of delivery.
type Delivered struct {
	Backend    string
	Table      *engine.CapabilityTable
	Hold       uint64 // hold time of the queue of Single, ns
	Opened     uint64 // events are expected from this time on
	Closed     uint64 // start of the orderly end, 0 if none: no events are expected after it
	BootOffset uint64
	WallOffset int64 // CLOCK_REALTIME minus CLOCK_MONOTONIC, for Seen.Wall
	Threads    bool  // Single has events of threads
	// AfterEnd is the longest time, in ns, from when the parent sees the end of a process to
	// the stamp of the EXIT: StampError.Ends of the table, or more if the reader was slow.
	AfterEnd uint64
	Single   []Seen // from a queue with engine.Options.MinAgg
	Joined   []Seen // from a queue without MinAgg; empty if there was none
	// Cut is set if records were dropped for lack of space. Then the texts of an event that
	// consists of several records may be unknown.
	Cut bool
	// Unread is set if the source could not wait for its reads of /proc. Then values from /proc
	// may be unknown.
	Unread bool
	// Foreign is nil for quark's own backends.
	Foreign *Tolerance
	// Clock is the clock error of quark's own backends, as [Stamps] returns it for Table. It
	// limits the ordering of events of different processes. nil means exact.
	Clock *Tolerance
	// JoinedHold is the HoldTime of the queue of Joined. Zero means Hold.
	JoinedHold uint64
}

// Counts counts the scored values of one field by class.
type Counts struct {
	Right       int `json:"right,omitempty"`
	Cached      int `json:"cached,omitempty"`
	Truncated   int `json:"truncated,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	Unexplained int `json:"unexplained,omitempty"`
	Wrong       int `json:"wrong,omitempty"`
	// Stale counts values of another time in events of other monitors, which have no mark for
	// such values. In events of quark's backends they count as Wrong.
	Stale int `json:"stale,omitempty"`

	// Missed counts values, of any class above, that are cached though the kernel reports the
	// field with the event.
	Missed int `json:"missed,omitempty"`
}

// Add adds o to v.
func (v *Counts) Add(o Counts) {
	v.Right += o.Right
	v.Cached += o.Cached
	v.Truncated += o.Truncated
	v.Unknown += o.Unknown
	v.Unexplained += o.Unexplained
	v.Wrong += o.Wrong
	v.Stale += o.Stale
	v.Missed += o.Missed
}

// Total returns the number of scored values.
func (v Counts) Total() int {
	return v.Right + v.Cached + v.Truncated + v.Unknown + v.Unexplained + v.Wrong + v.Stale
}

// Score is the result of a scenario for a backend. The package documentation defines the figures.
type Score struct {
	Truth      int                      `json:"truth"`
	Seen       int                      `json:"seen"`
	Phantoms   int                      `json:"phantoms"`
	Duplicates int                      `json:"duplicates"`
	Inversions int                      `json:"inversions"`
	Fields     [engine.NumFields]Counts `json:"fields"`
	Stamp      Counts                   `json:"stamp"`
	Joined     int                      `json:"joined"`
	Unjoined   int                      `json:"unjoined"`
	Slow       int                      `json:"slow"`
	Table      int                      `json:"table,omitempty"`
	Lost       int                      `json:"lost,omitempty"`
	Delays     []uint64                 `json:"-"`
	Findings   []string                 `json:"findings,omitempty"`
}

// Add adds o to s.
func (s *Score) Add(o *Score) {
	s.Truth += o.Truth
	s.Seen += o.Seen
	s.Phantoms += o.Phantoms
	s.Duplicates += o.Duplicates
	s.Inversions += o.Inversions
	for f := range s.Fields {
		s.Fields[f].Add(o.Fields[f])
	}
	s.Stamp.Add(o.Stamp)
	s.Joined += o.Joined
	s.Unjoined += o.Unjoined
	s.Slow += o.Slow
	s.Table += o.Table
	s.Lost += o.Lost
	s.Delays = append(s.Delays, o.Delays...)
	s.Findings = append(s.Findings, o.Findings...)
}

// All returns the sum over the fields.
func (s *Score) All() (v Counts) {
	for f := range s.Fields {
		v.Add(s.Fields[f])
	}
	return v
}

// Perfect reports whether no figure shows a defect. Fields may be unknown or truncated where the
// capability table allows it, and cached if marked as cached.
func (s *Score) Perfect() bool {
	all := s.All()
	all.Add(s.Stamp)
	return s.Seen >= s.Truth && s.Phantoms+s.Duplicates+s.Inversions+s.Unjoined+s.Table == 0 && all.Wrong+all.Unexplained+all.Stale == 0
}

// PerfectBut is like Perfect, but allows lost events: each happened within a gap, and their number
// is at most lost.
func (s *Score) PerfectBut(lost uint64) bool {
	rest := *s
	rest.Truth -= s.Lost
	return uint64(s.Lost) <= lost && rest.Perfect()
}

// Stamps returns the tolerance of a backend's time stamps, nil if they are exact.
func Stamps(t *engine.CapabilityTable) *Tolerance {
	if t.Stamps.Early|t.Stamps.Late == 0 {
		return nil
	}
	return &Tolerance{Early: t.Stamps.Early, Late: t.Stamps.Late, Unchanged: t.SameIDs}
}

// clockError returns the total clock error of one of quark's own backends. Events of different
// processes that are closer than this have no known order.
func (w *Delivered) clockError() uint64 {
	if w.Clock == nil {
		return 0
	}
	return w.Clock.Early + w.Clock.Late
}

// times returns the tolerance for the stamps of the backend or monitor.
func (w *Delivered) times() *Tolerance {
	if w.Foreign == nil {
		return w.Clock
	}
	return w.Foreign
}

// String lists the figures that show defects.
func (s *Score) String() string {
	all := s.All()
	all.Add(s.Stamp)
	stale := ""
	if all.Stale > 0 {
		stale = fmt.Sprintf("%d stale, ", all.Stale)
	}
	return fmt.Sprintf("%d of %d events seen, %d phantoms, %d duplicates, %d out of order, %d not joined, %d wrong, "+
		stale+"%d unexplained, %d wrong table entries", s.Seen, s.Truth, s.Phantoms, s.Duplicates, s.Inversions, s.Unjoined,
		all.Wrong, all.Unexplained, s.Table)
}

// byPID holds the processes of each pid in order.
type byPID map[uint32][]*truth.Process

// scorer scores one scenario.
type scorer struct {
	*Score
	w       *Delivered
	byPID   byPID                    // all known processes
	matched map[*Seen][]*truth.Event // the events that each delivered event reports, in order
	gaps    []engine.Gap             // gaps of the queue that is being scored
	joined  bool                     // set while the parts of joined events are scored
}

// gapsOf returns the gaps in delivered.
func gapsOf(delivered []Seen) (gaps []engine.Gap) {
	for i := range delivered {
		if s := &delivered[i]; s.Events == engine.EventGap {
			gaps = append(gaps, s.Gap)
		}
	}
	return gaps
}

// inGap reports whether an event between the two times may have been lost.
func (j *scorer) inGap(earliest, latest uint64) bool {
	return slices.ContainsFunc(j.gaps, func(g engine.Gap) bool { return earliest <= g.To && g.From <= latest })
}

// recordMissing scores an event that was not delivered.
func (j *scorer) recordMissing(l *truth.Process, what string, earliest, latest uint64) {
	j.Truth++
	if j.inGap(earliest, latest) {
		j.Lost++
		return
	}
	j.addFinding(l, "%s between %d and %d was not delivered", what, earliest, latest)
}

// maxFindings limits the number of findings. The counts include all.
const maxFindings = 40

func (j *scorer) addFinding(l *truth.Process, format string, args ...any) {
	if len(j.Findings) < maxFindings {
		j.Findings = append(j.Findings, fmt.Sprintf("%d: ", l.PID)+fmt.Sprintf(format, args...))
	}
}

// Compute scores what w delivered of the processes of a scenario.
func Compute(w *Delivered, processes []*truth.Process) *Score {
	return ComputeFor(w, processes, processes)
}

// ComputeFor scores only processes, which are some of all recorded processes.
func ComputeFor(w *Delivered, processes, all []*truth.Process) *Score {
	j := &scorer{Score: new(Score), w: w, byPID: make(byPID), matched: make(map[*Seen][]*truth.Event), gaps: gapsOf(w.Single)}
	for _, l := range all {
		j.byPID[uint32(l.PID)] = append(j.byPID[uint32(l.PID)], l)
	}
	single := j.assignEvents(w.Single)
	for _, l := range processes {
		j.scoreProcess(l, single.of[l])
		j.scoreDelivery(l, single.of[l])
		j.scoreReparents(l, single.reparents[l], true)
		if w.Threads {
			j.scoreThreads(l, single.threads[l])
		} else {
			j.scoreUnrequested(l, single.threads[l])
		}
	}
	for _, s := range single.stray {
		if !slices.Contains(processes, s.near) {
			continue
		}
		j.Phantoms++
		j.addFinding(s.near, "%s at %d: no process has this pid at that time", s.seen.Events, s.seen.Time)
	}
	if len(w.Joined) > 0 {
		joined := j.assignEvents(w.Joined)
		j.gaps = gapsOf(w.Joined)
		for _, l := range processes {
			j.scoreParts(l, joined.of[l])
			j.scoreAggregation(l, joined.of[l])
			j.scoreDelivery(l, joined.of[l])
			j.scoreReparents(l, joined.reparents[l], false)
			j.scoreUnrequested(l, joined.threads[l])
		}
	}
	for _, delivered := range [][]Seen{w.Single, w.Joined} {
		var order []*truth.Event
		for i := range delivered {
			if events := j.matched[&delivered[i]]; len(events) > 0 {
				order = append(order, events[0])
			}
		}
		if late := w.inversions(order); len(late) > 0 {
			j.Inversions += len(late)
			j.addFinding(late[0].Process, "%d events were delivered after later ones, the first is %s between %d and %d",
				len(late), late[0].Kind, late[0].Earliest, late[0].Latest)
		}
	}
	return j.Score
}
