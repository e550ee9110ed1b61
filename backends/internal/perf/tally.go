package perf

import (
	"cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// Tally knows how many samples the ring of a CPU had no room for. The kernel writes a lost-record
// before the next record that finds room; how many samples of each event are missing the events'
// counts say.
type Tally struct {
	events []tallied

	Last    uint64 // time of the last sample that was read
	since   uint64 // not 0: samples of after this time may be missing that no gap tells of
	between uint64 // samples missing between those that were read
	told    uint64 // lost samples that gaps have told of
	sure    uint64 // samples that were missing when nothing was under way
	look    look   // the first of those since which nothing has happened
}

// look is what was found when the counts were read.
type look struct{ time, hits, written uint64 }

// writing is after how many ns a hit that was counted is taken to be in the ring or lost. It is
// written with preemption disabled, within microseconds of the CPU's time.
const writing = 5_000_000

type tallied struct {
	event *Event // nil: its samples are not counted
	seen  uint64 // its count in the last sample
}

// Add makes e the event of number i. All write to the ring.
func (t *Tally) Add(i int, e *Event) { t.at(i).event = e }

func (t *Tally) at(i int) *tallied {
	for len(t.events) <= i {
		t.events = append(t.events, tallied{})
	}
	return &t.events[i]
}

// Saw notes a sample of event i with its count, and returns how many of that event are missing
// before it.
func (t *Tally) Saw(i int, count uint64) (missing uint64) {
	e := t.at(i)
	if count <= e.seen {
		return 0
	}
	missing, e.seen = count-e.seen-1, count
	if missing > 0 {
		t.between += missing
		t.Suspect()
	}
	return missing
}

// Suspect notes that samples may be missing after the last one.
func (t *Tally) Suspect() { t.since = cmp.Or(t.since, t.Last) }

// NoteFull notes how many bytes the ring held at most. If the longest record, of so many bytes, may
// have found no room, it may have dropped samples that no later record tells of, and the events'
// counters have to be read, for which the kernel interrupts the CPU.
func (t *Tally) NoteFull(r *Ring, held, longest int) {
	if r.Size()-held <= longest {
		t.Suspect()
	}
}

// Suspected returns since when samples may be missing that no gap tells of, 0 if none are.
func (t *Tally) Suspected() (since uint64) { return t.since }

// outstanding returns how many hits happened after the last samples that were read.
func (t *Tally) outstanding() (n uint64) {
	for _, e := range t.events {
		if e.event == nil {
			continue
		}
		if count, err := e.event.Count(); err == nil && count > e.seen {
			n += count - e.seen
		}
	}
	return n
}

// missing returns how many samples are neither read nor queued; less if not exact, as others have
// happened meanwhile or one is being written. The kernel counts a hit before it writes the sample,
// and the interrupt that reads the counts may come between these two. So one hit of the CPU may
// still be on its way, unless there was none since a look of some time ago.
func (t *Tally) missing(r *Ring, counts func(Record) bool) (n uint64, exact bool) {
	now := look{time: clock.Monotonic(), written: r.written()}
	outstanding := t.outstanding()
	for _, e := range t.events {
		now.hits += e.seen
	}
	now.hits += outstanding
	queued := r.Queued(counts)
	exact = r.written() == now.written
	if t.look.hits != now.hits || t.look.written != now.written {
		t.look = now
	}
	n = outstanding - min(outstanding, queued)
	if n > 0 && now.time-t.look.time < writing {
		n--
		exact = false
	}
	n = max(t.between+n, t.sure)
	if exact {
		t.sure = n
	}
	return n, exact
}

// Gap returns the gap of what was lost until now and no gap has told of; ok is false if there is
// none. counts reports whether a record is a sample of a counted event.
func (t *Tally) Gap(cpu int, r *Ring, counts func(Record) bool) (g engine.Gap, ok bool) {
	missing, exact := t.missing(r, counts)
	g, ok = t.tell(cpu, missing)
	if exact {
		t.since = 0
	}
	return g, ok
}

// Final returns the last gap of a CPU that has gone and whose ring was read to the end: no hit is
// under way there any more. lost is how many happened after the last samples that were read.
func (t *Tally) Final(cpu int) (g engine.Gap, lost uint64, ok bool) {
	lost = max(t.between+t.outstanding(), t.told) - t.between
	g, ok = t.tell(cpu, t.between+lost)
	return g, lost, ok
}

// tell returns a gap that makes what gaps have told of missing samples.
func (t *Tally) tell(cpu int, missing uint64) (g engine.Gap, ok bool) {
	if missing <= t.told {
		return g, false
	}
	g = engine.Gap{Cause: engine.LossRingFull, CPU: uint32(cpu), From: cmp.Or(t.since, t.Last), To: clock.Monotonic(), Count: missing - t.told}
	t.told = missing
	return g, true
}

// Untold returns how many samples are missing after those that were read, for statistics.
func (t *Tally) Untold(r *Ring, counts func(Record) bool) (n uint64, exact bool) {
	exact = true
	if t.since != 0 {
		n, exact = t.missing(r, counts)
	}
	return max(n, t.told, t.between) - t.between, exact
}

// Queued returns how many of the records in the ring counts is true for.
func (r *Ring) Queued(counts func(Record) bool) (n uint64) {
	for ahead := r.Ahead(); ; {
		rec, ok, _ := ahead.Next()
		if !ok {
			return n
		}
		if counts(rec) {
			n++
		}
	}
}
