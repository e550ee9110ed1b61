package score

import (
	"fmt"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Seen is one event as it was delivered.
type Seen struct {
	Events  engine.Events
	ID      engine.IDChange
	Time    uint64    // its stamp
	Wall    time.Time // its wall time; zero where nobody asked
	At      uint64    // when it was delivered
	Tracer  uint32
	Failed  engine.FailedExec
	Thread  bool // of one thread, TID
	TID     uint32
	Parts   []engine.Part
	Gap     engine.Gap      // for GAP
	Process *engine.Process // a clone
	// Table says how the process that the queue's table had at delivery, by pid and by
	// identity, differed from Process; empty if it did not, or nobody asked.
	Table string
	// Leaders are those of the process's session and group by the queue's table, nil where it
	// does not know them, or nobody asked.
	Leaders *[2]*engine.Identity
	// Ended are the leaders and ancestors that are printed with the event as ended.
	Ended []engine.Identity
}

// SeenOf returns what an event says that was delivered at a time, and stays as it is.
func SeenOf(ev *engine.Event, at uint64) Seen {
	return Seen{
		Events: ev.Events, ID: ev.IDChange, Time: ev.Time, Wall: ev.Wall, At: at, Tracer: ev.Tracer.PID, Failed: ev.Failed,
		Thread: ev.Thread, TID: ev.TID, Parts: slices.Clone(ev.Parts), Gap: ev.Gap, Process: ev.Process.Clone(),
	}
}

// Witness is what one backend delivered during a run, in the order of delivery.
type Witness struct {
	Backend    string
	Table      *engine.CapabilityTable
	Hold       uint64 // of the queue that Single is from, ns
	Opened     uint64 // from then on everything had to be seen
	Closed     uint64 // until then, when the orderly end of the queue began; 0: to the end
	BootOffset uint64
	WallOffset int64 // CLOCK_REALTIME less CLOCK_MONOTONIC, for Seen.Wall
	Threads    bool  // Single has events of threads
	// AfterEnd is how much later than its parent was told the end of a process may be
	// stamped, in ns: StampError.Ends of the table, or more where the reader was slow.
	AfterEnd uint64
	Single   []Seen // with engine.Options.MinAgg
	Joined   []Seen // without; empty if there was no such queue
	// Cut says that records found no room: of an event that more than one record tells the
	// texts may be unknown.
	Cut bool
	// Unread says that the source could not wait until it had read /proc: what comes from
	// there may be unknown.
	Unread bool
	// Foreign is nil for quark's own backends.
	Foreign *Foreign
	// Clock says how exact the times of one of these are, and with them the order of what
	// different processes did, nil for those between the readings around an event.
	// It is what [Stamps] returns for Table.
	Clock *Foreign
	// JoinedHold is the HoldTime of the queue that Joined is from, Hold if 0.
	JoinedHold uint64
}

// Verdicts counts what was said of a field.
type Verdicts struct {
	Right       int `json:"right,omitempty"`
	Carried     int `json:"carried,omitempty"`
	Truncated   int `json:"truncated,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	Unexplained int `json:"unexplained,omitempty"`
	Wrong       int `json:"wrong,omitempty"`
	// Stale are values of another time in a monitor's event that does not say so. For quark's
	// own backends they are Wrong.
	Stale int `json:"stale,omitempty"`

	// Missed are those of the others that are carried though the event brings the field.
	Missed int `json:"missed,omitempty"`
}

// Add adds up.
func (v *Verdicts) Add(o Verdicts) {
	v.Right += o.Right
	v.Carried += o.Carried
	v.Truncated += o.Truncated
	v.Unknown += o.Unknown
	v.Unexplained += o.Unexplained
	v.Wrong += o.Wrong
	v.Stale += o.Stale
	v.Missed += o.Missed
}

// Total is the number of verdicts.
func (v Verdicts) Total() int {
	return v.Right + v.Carried + v.Truncated + v.Unknown + v.Unexplained + v.Wrong + v.Stale
}

// Score is the outcome of a scenario for a backend. See the package's
// documentation for what the figures mean.
type Score struct {
	Truth      int                        `json:"truth"`
	Seen       int                        `json:"seen"`
	Phantoms   int                        `json:"phantoms"`
	Duplicates int                        `json:"duplicates"`
	Inversions int                        `json:"inversions"`
	Fields     [engine.NumFields]Verdicts `json:"fields"`
	Stamp      Verdicts                   `json:"stamp"`
	Joined     int                        `json:"joined"`
	Unjoined   int                        `json:"unjoined"`
	Slow       int                        `json:"slow"`
	Table      int                        `json:"table,omitempty"`
	Lost       int                        `json:"lost,omitempty"`
	Delays     []uint64                   `json:"-"`
	Findings   []string                   `json:"findings,omitempty"`
}

// Add adds up.
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

// All is the sum over the fields.
func (s *Score) All() (v Verdicts) {
	for f := range s.Fields {
		v.Add(s.Fields[f])
	}
	return v
}

// Perfect reports whether nothing is to be mended: unknown and truncated fields are as the
// capability table says, and fields that are not right at the event are marked as carried.
func (s *Score) Perfect() bool {
	all := s.All()
	all.Add(s.Stamp)
	return s.Seen >= s.Truth && s.Phantoms+s.Duplicates+s.Inversions+s.Unjoined+s.Table == 0 && all.Wrong+all.Unexplained+all.Stale == 0
}

// PerfectBut reports whether nothing is to be mended but events that are missing: each
// happened in a gap, and at most as many are missing as were reported as lost.
func (s *Score) PerfectBut(lost uint64) bool {
	rest := *s
	rest.Truth -= s.Lost
	return uint64(s.Lost) <= lost && rest.Perfect()
}

// Stamps returns the error of a backend's stamps, nil if they are exact.
func Stamps(t *engine.CapabilityTable) *Foreign {
	if t.Stamps.Early|t.Stamps.Late == 0 {
		return nil
	}
	return &Foreign{Early: t.Stamps.Early, Late: t.Stamps.Late, Unchanged: t.SameIDs}
}

// clockError is by how much the clock of one of quark's own backends can be off, by which what
// different processes did is put in order, and what is old enough to be delivered.
func (w *Witness) clockError() uint64 {
	if w.Clock == nil {
		return 0
	}
	return w.Clock.Early + w.Clock.Late
}

// times returns what the times of the witness can be held to.
func (w *Witness) times() *Foreign {
	if w.Foreign == nil {
		return w.Clock
	}
	return w.Foreign
}

// String shows what of a score is not as it should be.
func (s *Score) String() string {
	all := s.All()
	all.Add(s.Stamp)
	stale := ""
	if all.Stale > 0 {
		stale = fmt.Sprintf("%d stale, ", all.Stale)
	}
	return fmt.Sprintf("%d of %d events seen, %d phantoms, %d duplicates, %d out of order, %d not joined, %d wrong, "+
		stale+"%d unknown or carried without a reason, %d wrong in the table", s.Seen, s.Truth, s.Phantoms, s.Duplicates, s.Inversions, s.Unjoined,
		all.Wrong, all.Unexplained, s.Table)
}

// byPID has the lives of each pid in their order.
type byPID map[uint32][]*truth.Life

// scorer scores one scenario.
type scorer struct {
	*Score
	w       *Witness
	byPID   byPID                    // the lives that are known
	matched map[*Seen][]*truth.Event // what each delivered event reports, in order
	gaps    []engine.Gap             // in what is scored now
	joined  bool                     // what is scored now are parts of joined events
}

// gapsOf returns the gaps among what was delivered.
func gapsOf(delivered []Seen) (gaps []engine.Gap) {
	for i := range delivered {
		if s := &delivered[i]; s.Events == engine.EventGap {
			gaps = append(gaps, s.Gap)
		}
	}
	return gaps
}

// inGap reports whether something that happened between two times may have been lost.
func (j *scorer) inGap(earliest, latest uint64) bool {
	return slices.ContainsFunc(j.gaps, func(g engine.Gap) bool { return earliest <= g.To && g.From <= latest })
}

// miss scores an event that was not delivered.
func (j *scorer) miss(l *truth.Life, what string, earliest, latest uint64) {
	j.Truth++
	if j.inGap(earliest, latest) {
		j.Lost++
		return
	}
	j.find(l, "%s between %d and %d was not seen", what, earliest, latest)
}

// maxFindings bounds the texts, not the counts.
const maxFindings = 40

func (j *scorer) find(l *truth.Life, format string, args ...any) {
	if len(j.Findings) < maxFindings {
		j.Findings = append(j.Findings, fmt.Sprintf("%d: ", l.PID)+fmt.Sprintf(format, args...))
	}
}

// Lives scores what w delivered of the lives of a scenario.
func Lives(w *Witness, lives []*truth.Life) *Score { return Among(w, lives, lives) }

// Among does what Lives does, where the lives are among all that are known.
func Among(w *Witness, lives, all []*truth.Life) *Score {
	j := &scorer{Score: new(Score), w: w, byPID: make(byPID), matched: make(map[*Seen][]*truth.Event), gaps: gapsOf(w.Single)}
	for _, l := range all {
		j.byPID[uint32(l.PID)] = append(j.byPID[uint32(l.PID)], l)
	}
	single := j.sort(w.Single)
	for _, l := range lives {
		j.life(l, single.of[l])
		j.delivery(l, single.of[l])
		if w.Threads {
			j.threads(l, single.threads[l])
		} else {
			j.unasked(l, single.threads[l])
		}
	}
	for _, s := range single.stray {
		if !slices.Contains(lives, s.near) {
			continue
		}
		j.Phantoms++
		j.find(s.near, "%s at %d: no such process, or not at that time", s.seen.Events, s.seen.Time)
	}
	if len(w.Joined) > 0 {
		joined := j.sort(w.Joined)
		j.gaps = gapsOf(w.Joined)
		for _, l := range lives {
			j.parts(l, joined.of[l])
			j.aggregation(l, joined.of[l])
			j.delivery(l, joined.of[l])
			j.unasked(l, joined.threads[l])
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
			j.find(late[0].Life, "%d events came after others that they happened before, the first is %s between %d and %d",
				len(late), late[0].Kind, late[0].Earliest, late[0].Latest)
		}
	}
	return j.Score
}
