package pulse

import (
	"errors"
	"testing"
)

// TestGap: the gaps are of the time from the last check that found the probes working to the next.
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
		t.Errorf("silent probes: %v", err)
	}
	works = true
	p, err := Open(0, hits)
	if err != nil {
		t.Fatal(err)
	}
	begin := p.worked
	for i, step := range []struct {
		works   bool
		counter int // -1: not known
		gap     bool
	}{{true, 0, false}, {false, -1, false}, {false, 0, true}, {false, 0, true}, {true, 1, true}, {true, 1, false}} {
		from := p.worked
		works, counter = step.works, step.counter
		g, ok := p.Gap()
		if ok != step.gap || ok && (g.From != from || g.To != p.worked || g.To <= begin) || !ok && counter < 0 && p.worked != from {
			t.Errorf("step %d: %+v, %v", i, g, ok)
		}
	}
	if !p.Missed() {
		t.Error("what was missed is forgotten")
	}
	var none *Pulse
	if _, ok := none.Gap(); ok || none.Missed() || none.Interval() != 0 {
		t.Error("a gap of a source without probes")
	}
}
