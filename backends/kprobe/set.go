package kprobe

import (
	"fmt"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/tracefs"
)

// set is the probes on one function. Their samples together form one event. The first probe has the
// numbers. Without its sample there is no event.
type set struct {
	family  int
	kind    engine.Kind
	symbol  string
	silent  bool   // the records make no events, as their kind is left out
	filter  string // in the kernel's syntax
	probes  []*probe
	guards  []*probe                          // guards of the probes that read arguments
	all     uint32                            // the bits of all probes
	slots   slotPlaces                        // positions of the values in the records
	numbers []func(*engine.RawEvent, *values) // set the known fields of the first probe
	known   engine.Fields
	texts   []setText
	zeroes  bool // unreadable words of the arguments are 0, else guardWord
}

// setText is a text field of a set, with the bits of its probes.
type setText struct {
	*text
	parts uint32
}

// probe is one probe of a set.
type probe struct {
	set    *set
	number int    // index in the set
	part   uint32 // the bit of the probe
	def    definition
	layout *layout
}

// text returns a text field of the set, or nil if the set does not have it.
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
				s.numbers = append(s.numbers, n.set)
				s.known |= n.fields
			}
		}
	}
}

// drop removes the probe that was added last.
func (s *set) drop(p *probe) {
	s.probes = s.probes[:p.number]
	s.all &^= p.part
	s.slots.remove(p.number)
}

// place is the position of a value in the records of one probe.
type place struct {
	slot  slot
	off   uint16
	size  uint8 // bytes of a number
	kind  placeKind
	count uint8 // number of adjacent values, for consecutive slots
}

type placeKind uint8

const (
	placeWord placeKind = iota // 8 bytes
	placeHalf                  // 4 bytes
	placeByte                  // 1 byte
	// the position of a text: 16 bits of offset, 16 of length with its NUL
	placeString
	placeChunk // bytes of arguments
)

var placeKinds = map[int]placeKind{1: placeByte, 4: placeHalf, 8: placeWord}

// layout is the positions of all values in the records of one probe.
type layout struct {
	id     uint16 // first two bytes of the record
	size   int    // size of the fixed part
	places []place
}

// newLayout finds the fetched values in the format of the probe's records.
func newLayout(args []fetch, event *tracefs.Event) (*layout, error) {
	l := &layout{id: uint16(event.ID)}
	if event.ID > 1<<16-1 {
		return nil, fmt.Errorf("probe has ID %d", event.ID)
	}
	for _, a := range args {
		f, ok := event.Field(a.name())
		want := a.typ.size * max(a.count, 1)
		if !ok || f.Size != want {
			return nil, fmt.Errorf("format has no field %s of %d bytes", a.name(), want)
		}
		if a.word > 1 { // a part of a chunk that already has its place
			if chunk := l.places[len(l.places)-1]; f.Offset != int(chunk.off)+(a.word-1)*a.typ.size {
				return nil, fmt.Errorf("field %s of the format does not follow the previous word", a.name())
			}
			l.size = max(l.size, f.Offset+f.Size)
			continue
		}
		p := place{slot: a.slot, off: uint16(f.Offset), size: uint8(a.typ.size), count: uint8(max(a.count, 1))}
		switch {
		case a.typ == typeString:
			p.kind = placeString
		case slotArgv <= a.slot && a.slot < slotArgv+chunks:
			p.kind = placeChunk
		default:
			p.kind = placeKinds[a.typ.size]
		}
		l.places = append(l.places, p)
		l.size = max(l.size, f.Offset+f.Size)
	}
	return l, nil
}
