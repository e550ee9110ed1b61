package kprobe

import "github.com/quark-linux/quark/engine"

// set is the probes on one function whose samples together are one event. The first probe has the
// numbers: without it there is no event.
type set struct {
	family    int
	kind      engine.Kind
	symbol    string
	ofCurrent bool   // as in hook
	filter    string // in the kernel's syntax
	probes    []*probe
	guards    []*probe       // guards of the probes that read arguments
	all       uint32         // the bits of all probes
	slots     slotPlaces     // positions of the numbers in the records
	argv      [chunks]chunk  // positions of the arguments
	numbers   []numberSource // the fields of the first probe
	texts     []setText
}

func newSet(number int, f *family) *set {
	s := &set{family: number, kind: f.kind}
	for i := range s.argv {
		s.argv[i].part = -1
	}
	return s
}

// setText is a text field of a set, and the bits of its probes.
type setText struct {
	*text
	parts uint32
}

// probe is one probe of a set.
type probe struct {
	set    *set
	number int    // in the set
	part   uint32 // its bit
	def    definition
	layout *layout
}

// text returns a text field of the set, nil if the set has none of it.
func (s *set) text(t *text) *setText {
	for i := range s.texts {
		if s.texts[i].text == t {
			return &s.texts[i]
		}
	}
	return nil
}

// add adds an installed probe to the set.
func (s *set) add(p *probe) {
	p.set, p.number, p.part = s, len(s.probes), 1<<len(s.probes)
	s.probes = append(s.probes, p)
	s.all |= p.part
	s.slots.add(p.layout, p.number)
	if p.number == 0 {
		for _, n := range numberSources {
			if n.set != nil && s.slots.hasAll(n.from, n.to) {
				s.numbers = append(s.numbers, n)
			}
		}
	}
	for _, at := range p.layout.places {
		if at.kind == placeChunk {
			s.argv[at.slot-slotArgv] = chunk{p.number, int(at.off)}
		}
	}
}

// drop removes the probe that was added last, which is one for arguments.
func (s *set) drop(p *probe) {
	s.probes = s.probes[:p.number]
	s.all &^= p.part
	for i, c := range s.argv {
		if c.part == p.number {
			s.argv[i].part = -1
		}
	}
}
