// Package excerpt copies the wanted types from a kernel's BTF.
//
// A kernel has more than 100,000 types, and quark reads some dozens. Decoding and indexing all of
// them takes longer than the rest of opening a source. An excerpt is raw BTF with only the wanted
// types. One pass over the raw types creates it, without decoding each.
package excerpt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Make returns an excerpt of a kernel's raw BTF: the types at the start of the given members
// (TYPE.MEMBER[.MEMBER...], ENUM.VALUE or TYPE), and the types that these contain. Types keep their
// sizes and members their offsets. Other members are omitted, except those with the second or a
// later name of a given one. All pointers point to void; typedefs and qualifiers within types are
// omitted. A flavour of a type (NAME___FLAVOUR) belongs to a program and is not NAME.
//
// Wanted types are ordered by name, so that excerpts of kernels with the same types have the same
// bytes, and so has the excerpt of an excerpt.
//
// After an error the caller can still decode all of raw: the kernel may be newer than this package.
func Make(raw []byte, members []string) ([]byte, error) {
	r, err := parse(raw)
	if err != nil {
		return nil, err
	}
	first, inner := make(map[string]set), make(set)
	for _, m := range members {
		path := strings.Split(m, ".")
		if first[path[0]] == nil {
			first[path[0]] = make(set)
		}
		for i, name := range path[1:] {
			if i == 0 {
				first[path[0]][name] = true
			} else {
				inner[name] = true
			}
		}
	}
	roots, err := r.scan(first)
	if err != nil {
		return nil, err
	}
	if len(roots) == 0 {
		return nil, errors.New("BTF has none of the wanted types")
	}
	slices.SortStableFunc(roots, func(a, b root) int { return strings.Compare(a.name, b.name) })
	w := &writer{
		raw:     r,
		inner:   inner,
		own:     make(map[uint32]set),
		ids:     make(map[uint32]uint32),
		offsets: make(map[uint32]uint32),
		strings: []byte{0},
	}
	for _, root := range roots {
		w.newID(root.id)
	}
	for _, root := range roots {
		w.keepMembers(w.id(root.id), first[root.name])
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

// IDs returns the ids of functions ("NAME") and structures ("struct NAME") in raw BTF, 0 for each
// that it lacks.
func IDs(raw []byte, wanted ...string) []uint32 {
	ids := make([]uint32, len(wanted))
	r, err := parse(raw)
	if err != nil {
		return ids
	}
	type named struct{ name, kind uint32 }
	all := make([]named, len(wanted))
	for i, name := range wanted {
		name, isStruct := strings.CutPrefix(name, "struct ")
		all[i].kind = kindFunc
		if isStruct {
			all[i].kind = kindStruct
		}
		all[i].name = uint32(bytes.Index(r.strings, []byte("\x00"+name+"\x00")) + 1)
	}
	id := uint32(1)
	for t := r.types; len(t) >= typeSize && slices.Contains(ids, 0); id++ {
		info := info(u32(t, 4))
		if this := (named{u32(t, 0), uint32(info.kind())}); this.name != 0 {
			if i := slices.Index(all, this); i >= 0 && ids[i] == 0 {
				ids[i] = id
			}
		}
		t = t[min(size(info), len(t)):]
	}
	return ids
}

type set map[string]bool

// writer copies types. A type gets its new id when it is first referred to, before it is written.
type writer struct {
	raw   *raw
	inner set            // members that all types keep
	own   map[uint32]set // further members that a type keeps, by its new id

	ids     map[uint32]uint32 // from old to new ids
	queue   []uint32          // old ids, in the order of the new ones
	pointer uint32            // the new id of the only pointer, 0: none yet
	last    uint32            // the highest new id
	offsets map[uint32]uint32 // of names, from old to new
	types   []byte
	strings []byte
	err     error // the first error of id, name and some
}

// pointers represents the only pointer in the queue.
const pointers = math.MaxUint32

// maxQualifiers exceeds the typedefs and qualifiers of any type in a kernel. Only forged ones refer
// to themselves.
const maxQualifiers = 64

// id returns the new id of the type behind typedefs and qualifiers.
func (w *writer) id(old uint32) uint32 {
	for range maxQualifiers {
		if old == 0 { // void
			return 0
		}
		t, err := w.raw.at(old)
		if err != nil {
			w.fail(err)
			return 0
		}
		switch info(u32(t, 4)).kind() {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			old = u32(t, 8)
		case kindPointer:
			if w.pointer == 0 {
				w.pointer = w.newID(pointers)
			}
			return w.pointer
		default:
			return w.newID(old)
		}
	}
	w.fail(errors.New("BTF is damaged: a typedef or qualifier is of itself"))
	return 0
}

// newID returns the new id of a type, and queues the type if it is new.
func (w *writer) newID(old uint32) uint32 {
	id, ok := w.ids[old]
	if !ok {
		w.last++
		id = w.last
		w.ids[old] = id
		w.queue = append(w.queue, old)
	}
	return id
}

// keepMembers adds members to those that a type keeps.
func (w *writer) keepMembers(id uint32, members set) {
	if all := w.own[id]; all != nil {
		members = maps.Clone(members)
		maps.Copy(members, all)
	}
	w.own[id] = members
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
	case kindTypedef: // a wanted type
		w.put(name, uint32(i), w.id(sizeOrType))
	case kindArray:
		w.put(name, uint32(i), sizeOrType, w.id(u32(t, 0)), w.id(u32(t, 4)), u32(t, 8))
	case kindStruct, kindUnion:
		w.writeSome(old, name, i, sizeOrType, t, func(m []byte) {
			name, id := w.name(u32(m, 0)), w.id(u32(m, 4))
			if name == 0 {
				w.keepMembers(id, w.own[w.ids[old]])
			}
			w.put(name, id, u32(m, 8))
		})
	case kindEnum:
		w.writeSome(old, name, i, sizeOrType, t, func(v []byte) {
			w.put(w.name(u32(v, 0)), u32(v, 4))
		})
	case kindEnum64:
		w.writeSome(old, name, i, sizeOrType, t, func(v []byte) {
			w.put(w.name(u32(v, 0)), u32(v, 4), u32(v, 8))
		})
	default:
		return fmt.Errorf("BTF is damaged: a type by value is of kind %d", i.kind())
	}
	return w.err
}

// writeSome writes a type with the kept members or enumerators, and its members without a name,
// which may contain others.
func (w *writer) writeSome(old, name uint32, i info, size uint32, all []byte, put func([]byte)) {
	start := len(w.types)
	w.put(name, uint32(i), size)
	own := w.own[w.ids[old]]
	count, bitfields := uint32(0), uint32(0)
	each := int(kinds[i.kind()].each)
	for ; len(all) > 0; all = all[each:] {
		s, err := w.raw.name(u32(all, 0))
		if err != nil {
			w.fail(err)
			return
		}
		if len(s) == 0 || own[string(s)] || w.inner[string(s)] {
			put(all[:each])
			count++
			bitfields |= u32(all, each-4) >> 24
		}
	}
	head := uint32(i)&^infoCount | count
	if structured := i.kind() == kindStruct || i.kind() == kindUnion; structured && bitfields == 0 {
		head &^= infoFlag // all offsets are plain
	}
	binary.LittleEndian.PutUint32(w.types[start+4:], head)
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
