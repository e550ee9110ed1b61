package ebpf

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// gapsOf returns the gaps among the events that s has queued, and how many others there are.
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

// A loss is a gap in the stream, with its count and between two times that enclose it.
func TestLossIsAGap(t *testing.T) {
	s := open(t, Options{RingSize: 1})
	if gaps, _ := gapsOf(t, s); len(gaps) > 0 {
		t.Skip("lost before the test began")
	}
	run := shortLives(t)
	var told, others uint64
	for round := range 3 {
		from := clock.Monotonic()
		run(30)
		to := clock.Monotonic()
		gaps, n := gapsOf(t, s)
		others += n
		if len(gaps) == 0 {
			t.Fatalf("round %d: no gap", round)
		}
		for _, g := range gaps {
			told += g.Count
			if g.From > to || g.To < from || g.From >= g.To || g.Count == 0 {
				t.Errorf("gap %+v, the loss was between %d and %d", g, from, to)
			}
		}
	}
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if told > st.LostTotal() || told == 0 {
		t.Errorf("gaps tell of %d, lost are %d", told, st.LostTotal())
	}
	eventually(t, "gaps tell of all losses", func() bool {
		time.Sleep(time.Duration(skippedPause))
		gaps, _ := gapsOf(t, s)
		for _, g := range gaps {
			told += g.Count
		}
		st, err := s.Stats()
		return err == nil && told == st.LostTotal()
	})
}

// The ring says since when it may have been full, against a ring made by hand.
func TestFullSince(t *testing.T) {
	const size = 1 << 17
	page := os.Getpagesize()
	rest := make([]byte, page+2*size)
	r := newRing(make([]byte, page), rest, page, size)
	put := func(length int, time uint64) {
		at := *r.producer & r.mask
		for _, base := range []uint64{at, (at + size) % (2 * size)} {
			if base+8+uint64(length) <= 2*size {
				binary.NativeEndian.PutUint32(r.data[base:], uint32(length))
				binary.NativeEndian.PutUint64(r.data[base+8:], time)
			}
		}
		*r.producer += uint64(length+8+7) &^ 7
	}
	if since := r.fullSince(); since != 0 {
		t.Errorf("empty: %d", since)
	}
	const ms = uint64(time.Millisecond)
	var want uint64
	for n := uint64(1); *r.producer < size-4096; n++ {
		put(1000, n*ms)
		if *r.producer <= size-uint64(maxRecord) {
			want = n*ms - reorder
		}
	}
	if since := r.fullSince(); since != want || want == 0 {
		t.Errorf("full since %d, want %d", since, want)
	}
	for r.next() != nil {
	}
	r.release()
	put(1000, 1000*ms)
	if since := r.fullSince(); since != 0 {
		t.Errorf("it was full before its room was given back, and now since %d", since)
	}
	r.crowded = false
	if since := r.fullSince(); since != 1000*ms-reorder {
		t.Errorf("full since %d after losses of before were told", since)
	}
	small := newRing(make([]byte, page), make([]byte, page+2*4096), page, 4096)
	if since := small.fullSince(); since != 0 {
		t.Errorf("a ring smaller than a record: %d", since)
	}
}
