package ebpf

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// gaps reports losses to the engine, in order with the events. The programs count losses without a
// time. A loss happened after the last reading of the counters, and if the ring had no room, while
// the ring was nearly full.
type gaps struct {
	told [engine.NumLosses]uint64 // losses that a gap has reported
	// ofCPU is the same for each CPU, for the causes that perf buffers count per CPU.
	ofCPU []cpuLosses
	last  uint64 // when the counters were last read without a new loss
	// skipped is the kernel's count of skipped programs at the last reading, and looks has the
	// times of the last two readings. An event that a twin handles a moment later is not lost.
	skipped uint64
	looks   [2]uint64
	// waiting are the gaps not yet inserted, in order: the ring still holds earlier records.
	waiting []engine.Gap
}

// cpuLosses counts a CPU's records that found no room in its ring, or no ring.
type cpuLosses struct{ full, unseen uint64 }

func (g *gaps) begin() {
	now := clock.Monotonic()
	g.last, g.looks = now, [2]uint64{now, now}
}

// skippedPause is the time between two readings of the kernel's counters of skipped programs, which
// cost system calls.
const skippedPause = uint64(200 * time.Millisecond)

// maxRecord is the longest record, with its header.
const maxRecord = textsSize + maxTexts + recordHeader

const maxTexts = int(unsafe.Sizeof(programsTextEvent{}.Data))

// reorder is the longest time between taking a record's place in the ring and its stamp.
const reorder = uint64(time.Millisecond)

// findGaps makes a gap for each cause that had losses since the last call.
func (s *Source) findGaps() {
	g := &s.gaps
	began := clock.Monotonic()
	lost, looked := s.lostNow(began)
	ended := clock.Monotonic()
	if gap, ok := s.pulse.Gap(); ok {
		g.add(gap)
	}
	for cpu := range g.ofCPU {
		now, told := s.counters.lost(cpu), &g.ofCPU[cpu]
		if more := now.full - told.full; more > 0 {
			from := max(g.last, s.buffer.fullSince(cpu))
			g.add(engine.Gap{Cause: engine.LossRingFull, CPU: uint32(cpu), From: from, To: clock.Monotonic(), Count: more})
		}
		if more := now.unseen - told.unseen; more > 0 {
			g.add(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(cpu), From: g.last, To: clock.Monotonic(), Count: more})
		}
		*told = now
	}
	for cause, n := range lost {
		more := n - min(n, g.told[cause])
		if more == 0 {
			continue
		}
		g.told[cause] = n
		from := g.last
		switch engine.Loss(cause) {
		case engine.LossRingFull, engine.LossUnseen:
			if g.ofCPU != nil {
				continue
			}
			from = max(from, s.buffer.fullSince(0))
		case engine.LossSkipped:
			from = g.looks[0]
		}
		g.add(engine.Gap{Cause: engine.Loss(cause), CPU: engine.AllCPUs, From: from, To: ended, Count: more})
	}
	s.buffer.told()
	g.last = began
	if looked {
		g.looks = [2]uint64{g.looks[1], began}
	}
}

// add adds a gap. A gap that continues an earlier one of the same cause is merged into it, so that
// a ring that stays full and is read often makes one gap.
func (g *gaps) add(gap engine.Gap) {
	for i := range g.waiting {
		if w := &g.waiting[i]; w.Cause == gap.Cause && w.CPU == gap.CPU && gap.From <= w.To {
			w.To, w.Count = gap.To, w.Count+gap.Count
			return
		}
	}
	g.waiting = append(g.waiting, gap)
	slices.SortStableFunc(g.waiting, func(a, b engine.Gap) int { return cmp.Compare(a.From, b.From) })
}

// due returns the first waiting gap, unless the next record is earlier.
func (g *gaps) due(b buffer) (gap engine.Gap, ok bool) {
	if len(g.waiting) == 0 {
		return gap, false
	}
	gap = g.waiting[0]
	if ns, queued := b.peek(); queued && ns < gap.From {
		return gap, false
	}
	g.waiting = slices.Delete(g.waiting, 0, 1)
	return gap, true
}

// lostNow returns the losses by cause, and whether it has read the counters of skipped programs.
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
