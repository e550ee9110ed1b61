package ebpf

import (
	"sync/atomic"

	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/engine"
)

// selfTest tells whether programs built with types that may not be the running
// kernel's read the right things. Counting starts after it.
func (s *Source) selfTest() error {
	err := selftest.Run(&s.capabilities, func(take func(*engine.RawEvent)) error {
		atomic.StoreUint32(s.control.nudged, 0)
		for range maxTaken {
			record := s.ring.next()
			if record == nil {
				break
			}
			s.before.taken++
			if ev := new(engine.RawEvent); decode(ev, record) == nil {
				take(ev)
			}
		}
		s.ring.release()
		return nil
	})
	if err != nil {
		return err
	}
	s.before.lost = s.count().Lost
	s.gaps.begin(s.before.lost)
	return nil
}

// maxTaken is how many records the self-test takes before it looks at the time.
const maxTaken = 4096

// earlier is what was counted before the source was open, and is not told.
type earlier struct {
	taken uint64 // records that were read
	lost  [engine.NumLosses]uint64
}

// deduct returns the counters without what was before. What was produced stays
// what is read or queued and what is lost, though a loss may shrink: a skipped
// event counts until the program that makes up for it has run.
func (e *earlier) deduct(st engine.SourceStats) engine.SourceStats {
	kept := st.Produced - st.LostTotal() - e.taken
	for l, before := range e.lost {
		st.Lost[l] -= min(st.Lost[l], before)
	}
	st.Produced = kept + st.LostTotal()
	return st
}
