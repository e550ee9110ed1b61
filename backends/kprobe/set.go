package kprobe

import (
	"github.com/quark-linux/quark/engine"
)

// set is the probes on one function whose records together are one event. The
// first of them has the fixed part: without it there is no event.
type set struct {
	family    int
	kind      engine.Kind
	symbol    string
	ofCurrent bool   // as in hook
	filter    string // as the kernel is told it
	probes    []*probe
	guards    []*probe  // of those that read arguments
	all       uint32    // a bit for each probe
	has       slotSet   // what the records hold
	texts     []setText // the fields that further probes bring

	// chunkParts are the probes that bring each chunk of the arguments, 0 for
	// none.
	chunkParts [chunks]uint32
}

// setText is a field of a set: the probes that bring it.
type setText struct {
	field engine.Field
	parts uint32
}

// probe is one probe of a set.
type probe struct {
	set    *set
	part   uint32 // its bit
	def    definition
	layout *layout
}

// slotSet is a set of slots.
type slotSet [numNumbers/64 + 1]uint64

func (s *slotSet) add(n slot) { s[n/64] |= 1 << (n % 64) }
func (s *slotSet) addRow(f fetch) {
	for n := range slot(max(f.count, 1)) {
		s.add(f.slot + n)
	}
}

func (s *slotSet) has(n slot) bool { return s[n/64]&(1<<(n%64)) != 0 }

// partsOf are the bits of the probes that bring a field.
func (s *set) partsOf(f engine.Field) uint32 {
	for _, t := range s.texts {
		if t.field == f {
			return t.parts
		}
	}
	return 0
}

// drop gives up the probe that was added last.
func (s *set) drop(p *probe) {
	s.probes = s.probes[:len(s.probes)-1]
	s.all &^= p.part
	for i, part := range s.chunkParts {
		if part == p.part {
			s.chunkParts[i] = 0
		}
	}
}
