package excerpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Make returns an excerpt of a kernel's raw BTF: the types that the given members
// (TYPE.MEMBER[.MEMBER...], ENUM.VALUE or TYPE) begin with, and the types that these contain. Types
// keep their sizes and members their offsets. Members with none of the given names are left out.
// All pointers point to void. A flavour of a type (NAME___FLAVOUR) belongs to a program and is not
// NAME.
//
// After an error the caller can still decode raw as a whole: the kernel may be newer than this
// package.
func Make(raw []byte, members []string) ([]byte, error) {
	r, err := parse(raw)
	if err != nil {
		return nil, err
	}
	types, kept := newNames(), newNames()
	for _, m := range members {
		name, rest, _ := strings.Cut(m, ".")
		types.add(name)
		for one := range strings.SplitSeq(rest, ".") {
			kept.add(one)
		}
	}
	roots, err := r.scan(types)
	if err != nil {
		return nil, err
	}
	if len(roots) == 0 {
		return nil, errors.New("BTF has none of the types that are wanted")
	}
	w := &writer{
		raw:     r,
		kept:    kept,
		ids:     make(map[uint32]uint32),
		offsets: make(map[uint32]uint32),
		strings: []byte{0},
	}
	for _, id := range roots {
		w.id(id)
	}
	for len(w.queue) > 0 {
		id := w.queue[0]
		w.queue = w.queue[1:]
		if err := w.add(id); err != nil {
			return nil, err
		}
	}
	return w.marshal(), nil
}

// writer copies types. A type gets its new id when it is first referred to, before it is written.
type writer struct {
	raw  *raw
	kept *names // of members and enumerators

	ids     map[uint32]uint32 // from old to new ids
	queue   []uint32          // old ids, in the order of the new ones
	pointer uint32            // the new id of the only pointer, 0: none yet
	last    uint32            // the highest new id
	offsets map[uint32]uint32 // of names, from old to new
	types   []byte
	strings []byte
	err     error // the first error of id, name and some
}

// pointers stands for the only pointer in the queue.
const pointers = math.MaxUint32

// id returns the new id of a type, and queues the type if it is new.
func (w *writer) id(old uint32) uint32 {
	if old == 0 { // void
		return 0
	}
	if id, ok := w.ids[old]; ok {
		return id
	}
	t, err := w.raw.at(old)
	if err != nil {
		w.fail(err)
		return 0
	}
	if info(u32(t, 4)).kind() != kindPointer {
		w.last++
		w.queue = append(w.queue, old)
		w.ids[old] = w.last
		return w.last
	}
	if w.pointer == 0 {
		w.last++
		w.queue = append(w.queue, pointers)
		w.pointer = w.last
	}
	w.ids[old] = w.pointer
	return w.pointer
}

// name returns the new offset of a name, and copies the name if it is new.
func (w *writer) name(old uint32) uint32 {
	if at, ok := w.offsets[old]; ok {
		return at
	}
	s, err := w.raw.name(old)
	if err == nil && len(w.strings)+len(s) > len(w.raw.strings) {
		err = errors.New("BTF is damaged: names overlap") // copies could grow without limit
	}
	if err != nil {
		w.fail(err)
		return 0
	}
	at := uint32(0)
	if len(s) > 0 {
		at = uint32(len(w.strings))
		w.strings = append(append(w.strings, s...), 0)
	}
	w.offsets[old] = at
	return at
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) add(old uint32) error {
	if old == pointers {
		w.put(0, kindPointer<<24, 0)
		return nil
	}
	t, err := w.raw.at(old)
	if err != nil {
		return err
	}
	name, i, sizeOrType := w.name(u32(t, 0)), info(u32(t, 4)), u32(t, 8)
	t = t[typeSize:]
	switch i.kind() {
	case kindInt:
		w.put(name, uint32(i), sizeOrType, u32(t, 0))
	case kindForward, kindFloat:
		w.put(name, uint32(i), sizeOrType)
	case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
		w.put(name, uint32(i), w.id(sizeOrType))
	case kindArray:
		w.put(name, uint32(i), sizeOrType, w.id(u32(t, 0)), w.id(u32(t, 4)), u32(t, 8))
	case kindStruct, kindUnion:
		w.some(name, i, sizeOrType, t, func(m []byte) {
			w.put(w.name(u32(m, 0)), w.id(u32(m, 4)), u32(m, 8))
		})
	case kindEnum:
		w.some(name, i, sizeOrType, t, func(v []byte) {
			w.put(w.name(u32(v, 0)), u32(v, 4))
		})
	case kindEnum64:
		w.some(name, i, sizeOrType, t, func(v []byte) {
			w.put(w.name(u32(v, 0)), u32(v, 4), u32(v, 8))
		})
	default:
		return fmt.Errorf("BTF is damaged: a type by value is of kind %d", i.kind())
	}
	return w.err
}

// some writes a type with the members or enumerators that are kept, and its members without a name,
// which may contain others.
func (w *writer) some(name uint32, i info, size uint32, all []byte, put func([]byte)) {
	start := len(w.types)
	w.put(name, uint32(i), size)
	count := uint32(0)
	each := int(kinds[i.kind()].each)
	for ; len(all) > 0; all = all[each:] {
		s, err := w.raw.name(u32(all, 0))
		if err != nil {
			w.fail(err)
			return
		}
		if len(s) == 0 || w.kept.has(s) {
			put(all[:each])
			count++
		}
	}
	binary.LittleEndian.PutUint32(w.types[start+4:], uint32(i)&^infoCount|count)
}

func (w *writer) put(words ...uint32) {
	for _, v := range words {
		w.types = binary.LittleEndian.AppendUint32(w.types, v)
	}
}

// marshal returns the raw BTF with its header.
func (w *writer) marshal() []byte {
	b := make([]byte, 0, headerSize+len(w.types)+len(w.strings))
	b = binary.LittleEndian.AppendUint16(b, magic)
	b = append(b, 1, 0) // version, flags
	for _, v := range []int{headerSize, 0, len(w.types), len(w.types), len(w.strings)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return append(append(b, w.types...), w.strings...)
}
