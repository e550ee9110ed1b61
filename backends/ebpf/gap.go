package ebpf

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// gaps reports losses to the engine, in order with the events. The programs count losses, but do
// not record their time. A loss happened after the last read of the counters. If its cause is a
// full ring, it happened while the ring was nearly full.
type gaps struct {
	reported [engine.NumLosses]uint64 // losses that gaps have reported
	// ofCPU has the reported losses of each CPU, for the causes that perf buffers count per
	// CPU.
	ofCPU []cpuLosses
	last  uint64 // time of the last read of the counters without a new loss
	// skipped is the kernel's count of skipped programs at the last read, and readTimes has the
	// times of the last two reads. A skip is reported one read late: if the event's twin
	// handles the event a moment later, it is not lost.
	skipped   uint64
	readTimes [2]uint64
	// waiting are the gaps not yet inserted, in order: the ring still holds earlier records.
	waiting []engine.Gap
}

// cpuLosses counts a CPU's records that found no room in its ring, or no ring.
type cpuLosses struct{ full, unseen uint64 }

func (g *gaps) begin() {
	now := clock.Monotonic()
	g.last, g.readTimes = now, [2]uint64{now, now}
}

// skippedPause is the shortest interval between reads of the kernel's counters of skipped programs.
// A read costs system calls.
const skippedPause = uint64(200 * time.Millisecond)

// maxRecord is the size of the longest record with its header.
const maxRecord = textsSize + maxTexts + recordHeader

const maxTexts = int(unsafe.Sizeof(programsTextEvent{}.Data))

// reorder is the longest time between reserving a record's space in the ring and setting its time.
const reorder = uint64(time.Millisecond)

// findGaps adds a gap for each cause that had losses since the last call.
func (s *Source) findGaps() {
	g := &s.gaps
	began := clock.Monotonic()
	lost, readSkips := s.lostNow(began)
	ended := clock.Monotonic()
	if gap, ok := s.pulse.Gap(); ok {
		g.add(gap)
	}
	for cpu := range g.ofCPU {
		now, reported := s.counters.lost(cpu), &g.ofCPU[cpu]
		if more := now.full - reported.full; more > 0 {
			from := max(g.last, s.buffer.fullSince(cpu))
			g.add(engine.Gap{Cause: engine.LossRingFull, CPU: uint32(cpu), From: from, To: clock.Monotonic(), Count: more})
		}
		if more := now.unseen - reported.unseen; more > 0 {
			g.add(engine.Gap{Cause: engine.LossUnseen, CPU: uint32(cpu), From: g.last, To: clock.Monotonic(), Count: more})
		}
		*reported = now
	}
	for cause, n := range lost {
		more := n - min(n, g.reported[cause])
		if more == 0 {
			continue
		}
		g.reported[cause] = n
		from := g.last
		switch engine.Loss(cause) {
		case engine.LossRingFull, engine.LossUnseen:
			if g.ofCPU != nil {
				continue
			}
			from = max(from, s.buffer.fullSince(0))
		case engine.LossSkipped:
			from = g.readTimes[0]
		}
		g.add(engine.Gap{Cause: engine.Loss(cause), CPU: engine.AllCPUs, From: from, To: ended, Count: more})
	}
	s.buffer.markReported()
	g.last = began
	if readSkips {
		g.readTimes = [2]uint64{g.readTimes[1], began}
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

// lostNow returns the losses by cause. readSkips is set if the counters of skipped programs
// were read.
func (s *Source) lostNow(now uint64) (lost [engine.NumLosses]uint64, readSkips bool) {
	g := &s.gaps
	if now < g.readTimes[1]+skippedPause {
		st, _, _ := s.counters.sum()
		lost = st.Lost
	} else {
		lost, readSkips = s.count().Lost, true
		before := g.skipped
		g.skipped = lost[engine.LossSkipped]
		lost[engine.LossSkipped] = min(before, g.skipped)
	}
	lost[engine.LossDecode] = s.decode
	return lost, readSkips
}
