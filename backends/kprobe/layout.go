package kprobe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quark-linux/quark/engine"
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
	placeWord   placeKind = iota // of 8 bytes
	placeHalf                    // of 4
	placeByte                    // of 1
	placeString                  // where a text is: 16 bits of offset, 16 of length with its NUL
	placeChunk                   // bytes of arguments; after the words that tell how many there are
)

var placeKinds = map[int]placeKind{1: placeByte, 4: placeHalf, 8: placeWord}

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
		default:
			p.kind = placeKinds[a.typ.size]
		}
		l.places = append(l.places, p)
		l.size = max(l.size, f.Offset+f.Size)
	}
	slices.SortStableFunc(l.places, func(a, b place) int {
		return cmp.Compare(max(a.kind, placeString), max(b.kind, placeString))
	})
	return l, nil
}

// values is what the records of one event hold.
type values struct {
	number [numNumbers]uint64
	text   [numNumbers]span // of slots that are names
	bytes  []byte           // the names, one after the other

	argv   [chunks * chunkSize]byte
	wanted int // how many bytes of argv there are
	sound  int // how many of them the kernel could read, see guardWord
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
		case placeWord:
			for n := range slot(p.count) {
				v.number[p.slot+n] = binary.NativeEndian.Uint64(b[8*n:])
			}
		case placeHalf:
			for n := range slot(p.count) {
				v.number[p.slot+n] = uint64(binary.NativeEndian.Uint32(b[4*n:]))
			}
		case placeByte:
			v.number[p.slot] = uint64(b[0])
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
			v.sizeArguments()
			v.readChunk(int(p.slot-slotArgv)*chunkSize, b[:int(p.size)*int(p.count)])
		}
	}
	return nil
}

// sizeArguments notes how long the arguments are, as no more has to be looked at.
func (v *values) sizeArguments() {
	if start, end := v.number[slotArgStart], v.number[slotArgEnd]; end >= start {
		v.wanted = int(min(end-start, uint64(len(v.argv))))
	}
}

// readChunk takes that part of the arguments which begins at off.
func (v *values) readChunk(off int, b []byte) {
	b = b[:min(len(b), (max(v.wanted-off, 0)+7)&^7)] // whole words
	copy(v.argv[off:], b)
	for at := 0; at+8 <= len(b); at += 8 {
		if binary.NativeEndian.Uint64(b[at:]) == guardWord {
			v.sound = min(v.sound, off+at)
			return
		}
	}
}

// name returns the text of a slot, which is empty if it could not be read.
func (v *values) name(s slot) []byte {
	t := v.text[s]
	return v.bytes[t.off:][:t.len]
}

func (v *values) credentials() engine.Credentials {
	return engine.Credentials{
		UID: v.u32(slotUID), EUID: v.u32(slotEUID), SUID: v.u32(slotSUID),
		GID: v.u32(slotGID), EGID: v.u32(slotEGID), SGID: v.u32(slotSGID),
	}
}

func (v *values) u32(s slot) uint32 { return uint32(v.number[s]) }
