package kprobe

import (
	"fmt"

	"github.com/quark-linux/quark/backends/internal/tracefs"
)

// place is the position of a value in the records of one probe.
type place struct {
	slot  slot
	off   uint16
	size  uint8 // bytes of a number
	kind  placeKind
	count uint8 // values in a row, for slots in a row
}

type placeKind uint8

const (
	placeWord placeKind = iota // of 8 bytes
	placeHalf                  // of 4
	placeByte                  // of 1
	// where a text is: 16 bits of offset, 16 of length with its NUL
	placeString
	placeChunk // bytes of arguments
)

var placeKinds = map[int]placeKind{1: placeByte, 4: placeHalf, 8: placeWord}

// layout is the positions of all values in the records of one probe.
type layout struct {
	id     uint16 // the first two bytes of the record
	size   int    // of the fixed part
	places []place
}

// newLayout finds the fetched values in the format of the probe's records.
func newLayout(args []fetch, event *tracefs.Event) (*layout, error) {
	l := &layout{id: uint16(event.ID)}
	if event.ID > 1<<16-1 {
		return nil, fmt.Errorf("probe has ID %d", event.ID)
	}
	for _, a := range args {
		f, ok := event.Field(a.slot.name())
		want := a.typ.size * max(a.count, 1)
		if !ok || f.Size != want {
			return nil, fmt.Errorf("format has no field %s of %d bytes", a.slot.name(), want)
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
