package fidelity

import (
	"testing"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// In a storm each missing event must be reported as lost. In other scenarios no event may be
// missing.
func TestMissingAndLost(t *testing.T) {
	for _, c := range []struct {
		scenario string
		missing  int
		lost     uint64
		phantoms int
		defect   bool
	}{
		{scenario: scenario.StormName},
		{scenario: scenario.StormName, missing: 2, lost: 2},
		{scenario: scenario.StormName, missing: 2, lost: 1, defect: true},
		{scenario: scenario.StormName, missing: 2, lost: 2, phantoms: 1, defect: true},
		{scenario: "comm", missing: 2, lost: 2, defect: true},
	} {
		s := &Score{Scenario: c.scenario}
		s.Truth, s.Seen, s.Lost, s.Phantoms = 10, 10-c.missing, c.missing, c.phantoms
		r := &Report{Backends: []*Backend{{Name: "ebpf", Scenarios: []*Score{s}, Lost: c.lost}}}
		if got := r.Defects(); c.defect != (len(got) > 0) {
			t.Errorf("%+v: got defects %q", c, got)
		}
	}
}
