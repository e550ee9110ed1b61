package kprobe

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quark-linux/quark/internal/tracefs"
)

// place is where a value lies in a record.
type place struct {
	slot  slot
	off   uint16
	size  uint8 // bytes of a number
	kind  placeKind
	count uint8 // values in a row, for slots in a row
}

type placeKind uint8

const (
	placeNumber placeKind = iota
	placeString           // where a text is: 16 bits of offset, 16 of length with its NUL
	placeChunk            // bytes of arguments
)

// layout is how the records of one probe are taken apart.
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
		f, ok := event.Field(a.name())
		want := a.typ.size * max(a.count, 1)
		if !ok || f.Size != want {
			return nil, fmt.Errorf("format has no field %s of %d bytes", a.name(), want)
		}
		p := place{slot: a.slot, off: uint16(f.Offset), size: uint8(a.typ.size), count: uint8(max(a.count, 1))}
		switch {
		case a.typ == typeString:
			p.kind = placeString
		case a.slot >= slotArgv:
			p.kind = placeChunk
		}
		l.places = append(l.places, p)
		l.size = max(l.size, f.Offset+f.Size)
	}
	return l, nil
}

// values is what the records of one event hold.
type values struct {
	number [numNumbers]uint64
	text   [numNumbers]span // of slots that are names
	bytes  []byte           // the names, one after the other
	argv   [chunks * chunkSize]byte
}

type span struct{ off, len uint32 }

var (
	errRecordShort = errors.New("record shorter than its format says")
	errRecordText  = errors.New("text lies outside of the record")
)

// read takes a record apart.
func (l *layout) read(v *values, raw []byte) error {
	if len(raw) < l.size {
		return errRecordShort
	}
	for i := range l.places {
		p := &l.places[i]
		b := raw[p.off:]
		switch p.kind {
		case placeString:
			where := binary.NativeEndian.Uint32(b)
			off, n := where&0xffff, where>>16
			if int(off)+int(n) > len(raw) {
				return errRecordText
			}
			text := raw[off:][:n]
			if n > 0 && text[n-1] == 0 {
				text = text[:n-1]
			}
			v.text[p.slot] = span{uint32(len(v.bytes)), uint32(len(text))}
			v.bytes = append(v.bytes, text...)
		case placeChunk:
			copy(v.argv[int(p.slot-slotArgv)*chunkSize:], b[:int(p.size)*int(p.count)])
		default:
			for n := range slot(p.count) {
				v.number[p.slot+n] = number(b, p.size)
				b = b[p.size:]
			}
		}
	}
	return nil
}

func number(b []byte, size uint8) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// name returns the text of a slot, which is empty if it could not be read.
func (v *values) name(s slot) []byte {
	t := v.text[s]
	return v.bytes[t.off:][:t.len]
}

func (v *values) u32(s slot) uint32 { return uint32(v.number[s]) }
