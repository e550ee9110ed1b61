package fidelity

import (
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// Report is the result of a run. Its JSON form is the file format of quark-fidelity.
type Report struct {
	Type     string     `json:"type"` // "fidelity"
	Kernel   string     `json:"kernel"`
	Arch     string     `json:"arch"`
	CPUs     int        `json:"cpus"`
	Version  string     `json:"version"` // quark's version, or the commit it was built from
	Time     time.Time  `json:"time"`
	Backends []*Backend `json:"backends"`
	Absent   []Absence  `json:"absent,omitempty"`
	Honesty  []*Honesty `json:"honesty,omitempty"`
	Storms   []Storm    `json:"storms,omitempty"`
	Costs    []Cost     `json:"costs,omitempty"`
}

const recordType = "fidelity"

// Absence is a backend that could not be opened.
type Absence struct {
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

// Backend is what one backend saw.
type Backend struct {
	Name      string                `json:"name"`
	Kinds     map[string]Capability `json:"kinds"`
	Fields    map[string]Capability `json:"fields"`
	Scenarios []*Score              `json:"scenarios"`
	// Total and Delay cover all scenarios except the storm.
	Total score.Score `json:"total"`
	Delay Spread      `json:"delay_ns"`
	Lost  uint64      `json:"lost"`
	Cause string      `json:"cause,omitempty"`
	Late  uint64      `json:"late"`
}

// Capability is a row of the capability table.
type Capability struct {
	Origin string `json:"origin"`
	At     string `json:"at,omitempty"`
	Via    string `json:"via"`
}

// Spread is a distribution of values: its quantiles and a histogram by powers of two.
type Spread struct {
	N       int    `json:"n"`
	P50     uint64 `json:"p50"`
	P99     uint64 `json:"p99"`
	Max     uint64 `json:"max"`
	Buckets []int  `json:"buckets"` // Buckets[i] counts the values that are i bits long
}

func newReport() *Report {
	r := &Report{Type: recordType, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Time: time.Now().UTC().Round(time.Second)}
	r.Kernel, _ = kernelversion.Running()
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				r.Version = s.Value
			}
		}
	}
	return r
}

// describe copies the capability table.
func (b *Backend) describe(t *engine.CapabilityTable) {
	row := func(c engine.Capability) Capability { return Capability{c.Origin.String(), c.At.String(), c.Via} }
	b.Kinds, b.Fields = make(map[string]Capability), make(map[string]Capability)
	for k := range engine.Kind(engine.NumKinds) {
		b.Kinds[k.String()] = row(t.Kinds[k])
	}
	for f := range engine.Field(engine.NumFields) {
		b.Fields[f.String()] = row(t.Fields[f])
	}
}

func spread(values []uint64) (s Spread) {
	if len(values) == 0 {
		return s
	}
	v := slices.Sorted(slices.Values(values))
	s.N, s.P50, s.P99, s.Max = len(v), v[len(v)/2], v[len(v)*99/100], v[len(v)-1]
	s.Buckets = make([]int, bits.Len64(s.Max)+1)
	for _, ns := range v {
		s.Buckets[bits.Len64(ns)]++
	}
	return s
}
