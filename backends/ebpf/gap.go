package ebpf

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// gaps tells the engine of losses, in order with the events. The programs count what they
// lose and do not say when: it was since the last look at the counters, and what found no
// room in the ring was lost when the ring was nearly full.
type gaps struct {
	told [engine.NumLosses]uint64 // losses that a gap has told of
	last uint64                   // when the counters were last read with nothing left to tell
	// skipped is what the kernel said at the last look that it had skipped, and looks when
	// the last two were. What a twin makes up for a moment later is not lost.
	skipped uint64
	looks   [2]uint64
	// waiting are those that the sink has not got, in order: the ring holds records of before.
	waiting []engine.Gap
}

func (g *gaps) begin() {
	now := clock.Monotonic()
	g.last, g.looks = now, [2]uint64{now, now}
}

// skippedPause is the time between two looks at the kernel's counters of skipped
// programs, which cost system calls.
const skippedPause = uint64(200 * time.Millisecond)

// maxRecord is the longest record, with its header.
const maxRecord = textsSize + maxTexts + recordHeader

const maxTexts = int(unsafe.Sizeof(programsTextEvent{}.Data))

// reorder is the longest time between taking a record's place in the ring and its stamp.
const reorder = uint64(time.Millisecond)

// findGaps makes a gap for each cause of which there were losses since the last call.
func (s *Source) findGaps() {
	g := &s.gaps
	began := clock.Monotonic()
	lost, looked := s.lostNow(began)
	ended := clock.Monotonic()
	for cause, n := range lost {
		more := n - min(n, g.told[cause])
		if more == 0 {
			continue
		}
		from := g.last
		switch engine.Loss(cause) {
		case engine.LossRingFull:
			from = max(from, s.ring.fullSince())
		case engine.LossSkipped:
			from = g.looks[0]
		}
		g.add(engine.Gap{Cause: engine.Loss(cause), CPU: engine.AllCPUs, From: from, To: ended, Count: more})
		g.told[cause] = n
	}
	g.last, s.ring.crowded = began, false
	if looked {
		g.looks = [2]uint64{g.looks[1], began}
	}
}

// add takes a gap in. One that goes on from another of its cause becomes part of it, so that a ring
// that stays full and is looked at often makes one.
func (g *gaps) add(gap engine.Gap) {
	for i := range g.waiting {
		if w := &g.waiting[i]; w.Cause == gap.Cause && gap.From <= w.To {
			w.To, w.Count = gap.To, w.Count+gap.Count
			return
		}
	}
	g.waiting = append(g.waiting, gap)
	slices.SortStableFunc(g.waiting, func(a, b engine.Gap) int { return cmp.Compare(a.From, b.From) })
}

// due returns the first gap that waits, if the next record of the ring is not of before it.
func (g *gaps) due(r *ring) (gap engine.Gap, ok bool) {
	if len(g.waiting) == 0 {
		return gap, false
	}
	gap = g.waiting[0]
	if ahead := *r; r.pending() {
		record := ahead.next()
		if len(record) < 8 || binary.NativeEndian.Uint64(record) < gap.From {
			return gap, false
		}
	}
	g.waiting = slices.Delete(g.waiting, 0, 1)
	return gap, true
}

// lostNow returns the losses by cause, and whether it has looked for what was skipped.
func (s *Source) lostNow(now uint64) (lost [engine.NumLosses]uint64, looked bool) {
	g := &s.gaps
	if now < g.looks[1]+skippedPause {
		st, _, _ := s.counters.sum()
		lost = st.Lost
	} else {
		lost, looked = s.count().Lost, true
		before := g.skipped
		g.skipped = lost[engine.LossSkipped]
		lost[engine.LossSkipped] = min(before, g.skipped)
	}
	lost[engine.LossDecode] = s.decode
	return lost, looked
}

// fullSince returns a time before which the ring had room for every record: 0 if it may
// always have been full since it was last read, or was before that.
func (r *ring) fullSince() uint64 {
	if r.crowded {
		return 0
	}
	ahead := *r // reading it does not give room back
	limit := r.at + r.roomy()
	var since uint64
	for ahead.at < limit {
		record := ahead.next()
		if len(record) < 8 {
			break
		}
		if ahead.at <= limit {
			since = binary.NativeEndian.Uint64(record)
		}
	}
	return since - min(since, reorder)
}
