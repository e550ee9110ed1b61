package perf

import (
	"cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// Tally counts the samples that were lost because the ring of a CPU was full. The hit counts of the
// events show how many samples of each event are missing. The kernel also writes a lost-record, but
// only when a later record finds room.
type Tally struct {
	events []tallied

	Last     uint64  // time of the last sample that was read
	since    uint64  // if not 0, samples after this time may be missing and not in a gap
	between  uint64  // samples missing before the last sample that was read
	reported uint64  // lost samples in gaps
	sure     uint64  // missing samples at the last exact count
	idle     reading // the first of equal readings
}

// reading has the hits of all events and the bytes written to the ring, at a time.
type reading struct{ time, hits, written uint64 }

// writing is the longest time in ns between the count of a hit and the write of its sample. The
// kernel does both with preemption disabled, within microseconds of CPU time.
const writing = 5_000_000

type tallied struct {
	event *Event // nil: its samples are not counted
	seen  uint64 // its count in the last sample
}

// Add sets event number i to e. All events of a tally write to one ring.
func (t *Tally) Add(i int, e *Event) { t.at(i).event = e }

func (t *Tally) at(i int) *tallied {
	for len(t.events) <= i {
		t.events = append(t.events, tallied{})
	}
	return &t.events[i]
}

// AddSample records a sample of event i with its hit count. It returns how many samples of the
// event are missing before it.
func (t *Tally) AddSample(i int, count uint64) (missing uint64) {
	e := t.at(i)
	if count <= e.seen {
		return 0
	}
	missing, e.seen = count-e.seen-1, count
	if missing > 0 {
		t.between += missing
		t.MarkSuspect()
	}
	return missing
}

// MarkSuspect records that samples may be missing after the last one that was read.
func (t *Tally) MarkSuspect() { t.since = cmp.Or(t.since, t.Last) }

// CheckFull calls MarkSuspect if a record of the longest size does not fit in addition to the held
// bytes. A sample may then be lost without a later record, and only the events' counters show the
// loss. Reading them interrupts the CPU.
func (t *Tally) CheckFull(r *Ring, held, longest int) {
	if r.Size()-held <= longest {
		t.MarkSuspect()
	}
}

// Suspected returns the time after which unreported samples may be missing, or 0.
func (t *Tally) Suspected() (since uint64) { return t.since }

// outstanding returns the number of hits since the last sample that was read.
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

// missing returns the number of samples that are neither read nor queued. If exact is false, n is a
// lower bound: hits happened during the reads, or a sample is being written. The kernel counts a
// hit before it writes the sample, and may be interrupted between the two to read the counts. So
// one counted hit may have no sample yet, unless an earlier reading was the same.
func (t *Tally) missing(r *Ring, counts func(Record) bool) (n uint64, exact bool) {
	now := reading{time: clock.Monotonic(), written: r.written()}
	outstanding := t.outstanding()
	for _, e := range t.events {
		now.hits += e.seen
	}
	now.hits += outstanding
	queued := r.Queued(counts)
	exact = r.written() == now.written
	if t.idle.hits != now.hits || t.idle.written != now.written {
		t.idle = now
	}
	n = outstanding - min(outstanding, queued)
	if n > 0 && now.time-t.idle.time < writing {
		n--
		exact = false
	}
	n = max(t.between+n, t.sure)
	if exact {
		t.sure = n
	}
	return n, exact
}

// Gap returns the gap of the losses since the last gap. ok is false if there are none. counts
// reports whether a record is a sample of a counted event.
func (t *Tally) Gap(cpu int, r *Ring, counts func(Record) bool) (g engine.Gap, ok bool) {
	missing, exact := t.missing(r, counts)
	g, ok = t.gap(cpu, missing)
	if exact {
		t.since = 0
	}
	return g, ok
}

// Final returns the last gap of an offline CPU, after all records of its ring were read. The kernel
// writes no more samples there. lost is the number of hits since the last sample that was read.
func (t *Tally) Final(cpu int) (g engine.Gap, lost uint64, ok bool) {
	lost = max(t.between+t.outstanding(), t.reported) - t.between
	g, ok = t.gap(cpu, t.between+lost)
	return g, lost, ok
}

// gap returns a gap for those of the missing samples that no gap has reported.
func (t *Tally) gap(cpu int, missing uint64) (g engine.Gap, ok bool) {
	if missing <= t.reported {
		return g, false
	}
	g = engine.Gap{Cause: engine.LossRingFull, CPU: uint32(cpu), From: cmp.Or(t.since, t.Last), To: clock.Monotonic(), Count: missing - t.reported}
	t.reported = missing
	return g, true
}

// Unreported returns the number of samples missing after the last one that was read. It is for
// statistics.
func (t *Tally) Unreported(r *Ring, counts func(Record) bool) (n uint64, exact bool) {
	exact = true
	if t.since != 0 {
		n, exact = t.missing(r, counts)
	}
	return max(n, t.reported, t.between) - t.between, exact
}

// Queued returns the number of records in the ring for which counts is true.
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
