package pulse

import (
	"errors"
	"testing"
)

// TestGap: one gap covers a silence, from the last check that found the probes working to the next
// such check or to Stop. In a long silence a gap is reported every 10 s.
func TestGap(t *testing.T) {
	var n uint64
	counter, works := 0, false
	hits := func() (uint64, int) {
		if works {
			n++
		}
		return n, counter
	}
	if _, err := Open(0, hits); !errors.Is(err, ErrSilent) {
		t.Errorf("silent probes: got error %v, want ErrSilent", err)
	}
	works = true
	p, err := Open(0, hits)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		works   bool
		counter int // -1: the counter cannot be read
		long    bool
		gap     bool
	}{
		{true, 0, true, false}, {false, -1, false, false}, {false, 0, false, false}, {false, 0, false, false}, {true, 1, false, true},
		{true, 1, false, false}, {false, 1, false, false}, {false, 1, true, true}, {false, 1, false, false}, {true, 1, false, true}, {false, 1, false, false},
	} {
		if works, counter = step.works, step.counter; step.long {
			p.worked -= longest
		}
		from := p.worked
		g, ok := p.Gap()
		if ok != step.gap || ok && (g.From != from || g.To != p.worked || g.To <= from) || !ok && !step.works && p.worked != from {
			t.Errorf("step %d: got gap %+v, ok %v", i, g, ok)
		}
		if since, silent := p.Silence(); silent && since > from && !ok {
			t.Errorf("step %d: got silent since %d, want %d", i, since, from)
		}
	}
	p.Stop()
	if _, ok := p.Gap(); !ok {
		t.Error("got no gap after Stop ended a silence")
	}
	if _, ok := p.Gap(); ok || !p.Missed() {
		t.Error("got a second gap, or Missed is false")
	}
	var none *Pulse
	if _, ok := none.Gap(); ok || none.Missed() || none.Interval() != 0 {
		t.Error("got a gap from a source without probes")
	}
}
