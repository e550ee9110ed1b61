package ebpf

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// gapsOf reads all events of s and returns the gaps and the number of other events.
func gapsOf(t *testing.T, s *Source) (gaps []engine.Gap, others uint64) {
	t.Helper()
	b := engine.NewBuffer(1 << 16)
	e := recorder{b, func(r *engine.RawEvent) {
		if r.Kind == engine.KindGap {
			gaps = append(gaps, *r.Gap)
		} else {
			others++
		}
	}}
	if err := s.Populate(e); err != nil {
		t.Fatal(err)
	}
	return gaps, others
}

type recorder struct {
	*engine.Buffer
	see func(*engine.RawEvent)
}

func (r recorder) Insert(ev *engine.RawEvent) {
	r.see(ev)
	r.Buffer.Insert(ev)
}

// A gap in the stream reports the number of lost events and two times that enclose the loss.
func TestLossIsAGap(t *testing.T) {
	s := open(t, Options{RingSize: 1})
	if gaps, _ := gapsOf(t, s); len(gaps) > 0 {
		t.Skip("other programs' events were lost before the test began")
	}
	run := processRunner(t)
	var reported, others uint64
	for round := range 3 {
		from := clock.Monotonic()
		run(30)
		to := clock.Monotonic()
		gaps, n := gapsOf(t, s)
		others += n
		if len(gaps) == 0 {
			t.Fatalf("round %d: got no gap", round)
		}
		ours := false
		for _, g := range gaps {
			reported += g.Count
			if ours = ours || g.From <= to; g.To < from || g.From >= g.To || g.Count == 0 {
				t.Errorf("gap %+v does not overlap the loss between %d and %d", g, from, to)
			}
		}
		if !ours { // events of other programs can be lost before
			t.Errorf("none of the gaps %+v covers the loss between %d and %d", gaps, from, to)
		}
	}
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if reported > st.LostTotal() || reported == 0 {
		t.Errorf("gaps report %d losses, the counters %d", reported, st.LostTotal())
	}
	eventually(t, "gaps report all losses", func() bool {
		time.Sleep(time.Duration(skippedPause))
		gaps, _ := gapsOf(t, s)
		for _, g := range gaps {
			reported += g.Count
		}
		st, err := s.Stats()
		return err == nil && reported == st.LostTotal()
	})
}

// The gap is delivered after the records that the ring had when the loss began, for any size of the
// engine's buffer.
func TestGapOrder(t *testing.T) {
	s := open(t, Options{RingSize: 128 << 10})
	run := processRunner(t)
	lost := func() bool {
		st, err := s.Stats()
		return err != nil || st.LostTotal() > 0
	}
	for deadline := time.Now().Add(10 * time.Second); !lost(); run(50) {
		if time.Now().After(deadline) {
			t.Fatal("no event was lost")
		}
	}
	var events, gaps int
	var gap engine.Gap
	for more := true; more; {
		more = false
		see := recorder{engine.NewBuffer(1), func(r *engine.RawEvent) {
			more = true
			if r.Kind == engine.KindGap {
				gap, gaps = *r.Gap, gaps+1
				return
			}
			if events++; r.Time+reorder < gap.From {
				t.Errorf("event %d is %v older than the gap that precedes it", events, time.Duration(gap.From-r.Time))
			}
		}}
		if err := s.Populate(see); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	if gaps == 0 || gap.From == 0 || gap.From > gap.To || events < 100 {
		t.Errorf("got %d events and %d gaps, last gap %+v", events, gaps, gap)
	}
}

// Adjacent gaps with the same cause are merged. Each gap is delivered before the events that are
// later than its start.
func TestWaitingGaps(t *testing.T) {
	r, data := newMemoryRing(4096)
	for i, time := range []uint64{10, 20, 30} {
		binary.NativeEndian.PutUint32(data[i*16:], 8)
		binary.NativeEndian.PutUint64(data[i*16+8:], time)
	}
	*r.producer = 48
	var g gaps
	full := func(from, to uint64) engine.Gap { return engine.Gap{From: from, To: to, Count: 1} }
	skipped := engine.Gap{Cause: engine.LossSkipped, From: 15, To: 60, Count: 1}
	for _, gap := range []engine.Gap{full(25, 40), full(39, 50), full(55, 60), skipped} {
		g.add(gap)
	}
	var got []any
	for {
		if gap, ok := g.due(r); ok {
			got = append(got, gap)
		} else if record := r.next(); record != nil {
			got = append(got, binary.NativeEndian.Uint64(record))
		} else {
			break
		}
	}
	want := []any{uint64(10), skipped, uint64(20), engine.Gap{From: 25, To: 50, Count: 2}, uint64(30), full(55, 60)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A loss while Populate runs is delivered as a gap by the same call.
func TestLossWhileReading(t *testing.T) {
	r, data := newMemoryRing(4096)
	binary.NativeEndian.PutUint32(data, 8) // a record that cannot be decoded
	*r.producer = 16
	s := &Source{buffer: r, control: &control{nudged: new(uint32)}, counters: &counters{byCPU: make([]programsTallies, 1)}}
	s.gaps.begin()
	sink := &fillingSink{Buffer: engine.NewBuffer(1), lost: &s.counters.byCPU[0].Kind[0].RingFull}
	if err := s.Populate(sink); err != nil {
		t.Fatal(err)
	}
	if len(sink.gaps) != 2 || sink.gaps[0].Cause != engine.LossRingFull || sink.gaps[1].Cause != engine.LossDecode {
		t.Errorf("got gaps %+v with %d events lost, want LossRingFull, then LossDecode", sink.gaps, *sink.lost)
	}
}

// fillingSink is a sink that adds a lost event for each released event, as if the ring were full.
type fillingSink struct {
	*engine.Buffer
	lost *uint64
	gaps []engine.Gap
}

func (l *fillingSink) Release(r *engine.RawEvent) {
	*l.lost++
	l.Buffer.Release(r)
}

func (l *fillingSink) Insert(r *engine.RawEvent) { l.gaps = append(l.gaps, *r.Gap) }

func TestFullSince(t *testing.T) {
	const size = 1 << 17
	r, data := newMemoryRing(size)
	put := func(length int, time uint64) {
		at := *r.producer & r.mask
		binary.NativeEndian.PutUint32(data[at:], uint32(length))
		binary.NativeEndian.PutUint64(data[(at+8)%size:], time)
		*r.producer += uint64(length+8+7) &^ 7
	}
	if since := r.fullSince(0); since != 0 {
		t.Errorf("empty ring: got %d, want 0", since)
	}
	const ms = uint64(time.Millisecond)
	var want uint64
	for n := uint64(1); *r.producer < size-4096; n++ {
		put(1000, n*ms)
		if *r.producer <= size-uint64(maxRecord) {
			want = n*ms - reorder
		}
	}
	if since := r.fullSince(0); since != want || want == 0 {
		t.Errorf("ring with records: got %d, want %d", since, want)
	}
	for r.next() != nil {
	}
	r.release()
	put(1000, 1000*ms)
	if since := r.fullSince(0); since != 0 {
		t.Errorf("ring that was full before its release: got %d, want 0", since)
	}
	r.crowded = false
	if since := r.fullSince(0); since != 1000*ms-reorder {
		t.Errorf("after the earlier losses were reported: got %d", since)
	}
	small, _ := newMemoryRing(4096)
	if since := small.fullSince(0); since != 0 {
		t.Errorf("ring smaller than a record: got %d, want 0", since)
	}
}
