package fidelity

import (
	"fmt"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// Defects lists every difference from the truth that the capability tables do not explain.
func (r *Report) Defects() (list []string) {
	add := func(findings []string, format string, args ...any) {
		list = append(list, fmt.Sprintf(format, args...))
		for _, f := range findings {
			list = append(list, "  "+f)
		}
	}
	for _, b := range r.Backends {
		for _, s := range b.Scenarios {
			if s.Perfect() || b.lostIn(s) {
				continue
			}
			add(s.Findings, "%s, %s: %s", b.Name, s.Scenario, &s.Score)
		}
	}
	for _, s := range r.Storms {
		if !s.Honest() {
			add(s.Findings, "%s, a storm of %.0f a second: %d of %d events seen, %d reported as lost, %d that did not happen, %d out of order, %d wrong",
				s.Backend, s.Offered, s.Seen, s.Truth, s.Lost, s.Extra, s.Inverted, s.Wrong)
		}
	}
	for _, h := range r.Honesty {
		if !h.Exact() {
			add(nil, "%s under forced loss: %d to %d events missing (%d of %d of ours), %d reported: %s",
				h.Backend, h.Absent, h.AtMost, h.Missing, h.Truth, h.Reported, h.Cause)
		}
	}
	return list
}

// lostIn reports whether s is a storm whose only defect is missing events that the backend
// reported as lost.
func (b *Backend) lostIn(s *Score) bool {
	return s.Scenario == scenario.StormName && s.PerfectBut(b.Lost)
}
