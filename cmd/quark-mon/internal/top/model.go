package top

import (
	"cmp"
	"slices"
	"time"

	"github.com/quark-linux/quark"
)

const (
	second = uint64(time.Second)
	// Minute is the number of displayed seconds of a rate, window the number of seconds that a
	// tree's counts cover.
	Minute, window = 60, 10
	// slack is the largest delay of an event beyond its hold time.
	slack = uint64(200 * time.Millisecond)
	// maxTrees is the maximum number of processes with active descendants that are counted
	// separately.
	maxTrees = 4096
	// maxRows limits the trees of a frame.
	maxRows = 200
)

// Model counts the events of a queue.
type Model struct {
	hold     uint64 // hold time of events
	started  uint64 // first complete second
	shown    uint64 // newest second of any frame
	rates    history
	total    [numWhats]uint64
	peak     Counts
	trees    map[quark.Identity]*history // counts of the descendants of a process
	full     bool                        // trees was full since the last frame
	failures failures
}

// New returns a model that begins now, in CLOCK_MONOTONIC ns. hold is the hold time of the events.
func New(now uint64, hold time.Duration) *Model {
	return &Model{
		hold: uint64(hold), started: now/second + 1, rates: history{seconds: make([]Counts, 2*Minute)},
		trees: make(map[quark.Identity]*history), failures: make(failures),
	}
}

// Clear resets the peaks, totals and failures.
func (m *Model) Clear() {
	m.total, m.peak, m.failures = [numWhats]uint64{}, Counts{}, make(failures)
}

// Ancestors returns the ancestors of a process, the parent first, as a queue does.
type Ancestors func(*quark.Process) ([]*quark.Process, bool)

// Count adds an event.
func (m *Model) Count(ev *quark.Event, ancestors Ancestors) {
	if ev.Events == quark.EventExecFailed {
		m.failures.add(ev, ev.Parts[0].Time)
	}
	if ev.Process == nil || ev.Thread || !ev.Events.Has(quark.EventFork|quark.EventExec|quark.EventExit) {
		return
	}
	for what, at := range parts(ev) {
		m.total[what]++
		m.rates.add(at/second, what)
		if what == Failed {
			m.failures.add(ev, at)
		}
	}
	above, _ := ancestors(ev.Process)
	for _, a := range above {
		id, known := a.Identity()
		if !known || a.Exited {
			continue
		}
		t := m.trees[id]
		if t == nil {
			if len(m.trees) >= maxTrees {
				m.full = true
				continue
			}
			t = &history{seconds: make([]Counts, 2*window)}
			m.trees[id] = t
		}
		for what, at := range parts(ev) {
			t.add(at/second, what)
		}
	}
}

// parts yields the counted kinds in an event, with their times.
func parts(ev *quark.Event) func(func(What, uint64) bool) {
	return func(yield func(What, uint64) bool) {
		for i := range ev.Parts {
			part := &ev.Parts[i]
			what := numWhats
			switch part.Kind.Events() {
			case quark.EventFork:
				what = Forks
			case quark.EventExec:
				what = Execs
			case quark.EventExit:
				what = Exits
			}
			if what < numWhats && !yield(what, part.Time) {
				return
			}
			p := ev.Process
			if what == Exits && p.Known.Has(quark.FieldExit) && p.Task.Exit.WaitStatus != 0 && !yield(Failed, part.Time) {
				return
			}
		}
	}
}

// Frame is the content of a screen: the activity up to the last complete second.
type Frame struct {
	Now   uint64 // in CLOCK_MONOTONIC ns
	Rates [numWhats]Rate
	// Trees are the counts of the descendants of living processes, busiest first. A tree is
	// omitted if nearly all its events belong to one child's tree.
	Trees   []Tree
	Seconds int
	Full    bool // some trees were not counted
	// Failures are in no order.
	Failures []Failure
}

// Rate has the occurrences in each second of the last minute, newest last, with their maximum and
// total.
type Rate struct {
	Last  [Minute]uint32
	Peak  uint32
	Total uint64
}

// Tree counts the events of a process's descendants.
type Tree struct {
	Counts
	Leader    *quark.Process
	Ancestors []string // names, parent first, without process 1, as far as known
	above     []*quark.Process
}

// all returns the sum of the counts.
func (c *Counts) all() uint32 { return c[Forks] + c[Execs] + c[Exits] }

// Frame returns the recent activity. find returns the process of an identity, or nil.
func (m *Model) Frame(now uint64, find func(quark.Identity) *quark.Process, ancestors Ancestors) *Frame {
	last := (now-min(now, m.hold+slack))/second - 1 // wraps only in the first second after boot
	f := &Frame{Now: now, Full: m.full, Seconds: window}
	m.full = false
	if last < m.started || last+1 == 0 { // no second is complete yet
		f.Seconds = 0
		return f
	}
	f.Seconds = min(window, int(last-m.started)+1)
	for s := max(m.shown+1, m.started, last-min(last, Minute)); s <= last; s++ {
		c := m.rates.at(s)
		for w := range m.peak {
			m.peak[w] = max(m.peak[w], c[w])
		}
	}
	m.shown = last
	for w := range f.Rates {
		r := &f.Rates[w]
		r.Peak, r.Total = m.peak[w], m.total[w]
		for i := range r.Last {
			r.Last[i] = m.rates.at(last - Minute + 1 + uint64(i))[w]
		}
	}
	for _, x := range m.failures {
		f.Failures = append(f.Failures, *x)
	}
	f.Trees = m.busiest(last, f.Seconds, find, ancestors)
	for i := range f.Trees {
		t := &f.Trees[i]
		t.Leader = copyShown(t.Leader)
		for _, a := range t.above {
			if a.PID == 1 || !a.Known.Has(quark.FieldComm) {
				break
			}
			t.Ancestors = append(t.Ancestors, a.Comm)
		}
		t.above = nil
	}
	return f
}

// busiest returns the trees of living processes, and removes idle ones.
func (m *Model) busiest(last uint64, seconds int, find func(quark.Identity) *quark.Process, ancestors Ancestors) (rows []Tree) {
	below := make(map[*quark.Process]uint32) // count of the busiest child tree
	for id, t := range m.trees {
		p := find(id)
		if p == nil || p.Exited || t.newest+window <= last {
			delete(m.trees, id)
			continue
		}
		c := t.sum(last, seconds)
		if c.all() == 0 {
			continue
		}
		above, _ := ancestors(p)
		rows = append(rows, Tree{Counts: c, Leader: p, above: above})
		if i := slices.IndexFunc(above, func(a *quark.Process) bool { return !a.Exited }); i >= 0 {
			below[above[i]] = max(below[above[i]], c.all())
		}
	}
	rows = slices.DeleteFunc(rows, func(t Tree) bool { return uint64(below[t.Leader])*10 >= uint64(t.all())*9 })
	slices.SortFunc(rows, func(a, b Tree) int {
		return cmp.Or(cmp.Compare(b.all(), a.all()), cmp.Compare(a.Leader.PID, b.Leader.PID))
	})
	return rows[:min(len(rows), maxRows)]
}
