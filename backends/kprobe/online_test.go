package kprobe

import (
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
)

// If a full buffer left records in the rings, the gap of a CPU that came online begins before them.
func TestUnseenBeginsBeforeWhatIsUnread(t *testing.T) {
	s := &Source{online: new(perf.Online), unseen: []int{1}, followed: 7}
	for range 2 {
		full := engine.NewBuffer(0)
		var gap engine.Gap
		s.followCPUs(gapSink{full, &gap})
		if gap.From != 7 {
			t.Errorf("got a gap from %d, want 7", gap.From)
		}
		s.unseen = []int{2}
	}
	s.followCPUs(engine.NewBuffer(10))
	if s.followed == 7 {
		t.Error("the rings were read, but followed was not updated")
	}
}

type gapSink struct {
	*engine.Buffer
	gap *engine.Gap
}

func (s gapSink) Insert(r *engine.RawEvent) { *s.gap = *r.Gap }
