package ebpf

import (
	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/engine"
)

// selfTest checks that programs built with types that may not be the running kernel's read the
// right values. Counting starts after it.
func (s *Source) selfTest() error {
	read, err := selftest.Run(&s.capabilities, s)
	if err != nil {
		return err
	}
	s.before.read += read + s.decode
	s.before.lost = s.count().Lost
	s.decode = 0
	s.gaps.begin(s.before.lost)
	return nil
}

// earlier is what was counted before the source was open. Stats leaves it out.
type earlier struct {
	read uint64 // records
	lost [engine.NumLosses]uint64
}

// deduct returns the counters without those of before. Produced remains what is read, queued or
// lost, though a loss may shrink: a skipped event counts as lost until its twin has run.
func (e *earlier) deduct(st engine.SourceStats) engine.SourceStats {
	kept := st.Produced - st.LostTotal() - e.read
	for l, before := range e.lost {
		st.Lost[l] -= min(st.Lost[l], before)
	}
	st.Produced = kept + st.LostTotal()
	return st
}
