package fidelity

import (
	"slices"
	"testing"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// What is missing from a storm has to be reported as lost, and elsewhere nothing may
// be missing.
func TestMissingAndLost(t *testing.T) {
	for _, c := range []struct {
		scenario      string
		missing       int
		lost          uint64
		phantoms      int
		defect, storm bool
	}{
		{scenario: scenario.StormName},
		{scenario: scenario.StormName, missing: 2, lost: 2},
		{scenario: scenario.StormName, missing: 2, lost: 1, defect: true, storm: true},
		{scenario: scenario.StormName, missing: 2, lost: 2, phantoms: 1, defect: true, storm: true},
		{scenario: "comm", missing: 2, lost: 2, defect: true},
	} {
		s := &Score{Scenario: c.scenario}
		s.Truth, s.Seen, s.Lost, s.Phantoms = 10, 10-c.missing, c.missing, c.phantoms
		r := &Report{Backends: []*Backend{{Name: "ebpf", Scenarios: []*Score{s}, Lost: c.lost}}}
		if got := r.Defects(); c.defect != (len(got) > 0) {
			t.Errorf("%+v: defects %q", c, got)
		}
		point := Storm{Truth: 10, Seen: 10 - c.missing, Lost: c.lost, Extra: c.phantoms}
		if point.Honest() == c.storm {
			t.Errorf("%+v: a storm is honest: %v", c, !c.storm)
		}
	}
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		most int
		want []int
	}{
		{9000, []int{500, 1000, 2000, 4000}},
		{3000, []int{500, 1000, 2000, 4000}},
		{2000, []int{250, 500, 1000, 2000}},
		{70, []int{7, 15, 31, 62}},
		{1, []int{1, 3, 7, 15}},
	} {
		if got := rates(c.most); !slices.Equal(got, c.want) {
			t.Errorf("where a machine gives %d: %v, want %v", c.most, got, c.want)
		}
	}
}
