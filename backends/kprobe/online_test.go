package kprobe

import (
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/engine"
)

// The gap of a CPU that came online begins before all that a full buffer left in the rings.
func TestUnseenBeginsBeforeWhatIsUnread(t *testing.T) {
	s := &Source{online: new(perf.Online), unseen: []int{1}, followed: 7}
	for range 2 {
		full := engine.NewBuffer(0)
		var gap engine.Gap
		s.followCPUs(spy{full, &gap})
		if gap.From != 7 {
			t.Errorf("it begins at %d", gap.From)
		}
		s.unseen = []int{2}
	}
	s.followCPUs(engine.NewBuffer(10))
	if s.followed == 7 {
		t.Error("the rings were read, and that was not noted")
	}
}

type spy struct {
	*engine.Buffer
	gap *engine.Gap
}

func (s spy) Insert(r *engine.RawEvent) { *s.gap = *r.Gap }
