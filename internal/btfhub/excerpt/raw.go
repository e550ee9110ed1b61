package excerpt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The format is described in Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
const (
	magic      = 0xeb9f
	headerSize = 24 // struct btf_header; later versions may be longer
	typeSize   = 12 // struct btf_type, before the data of the kind
)

// Kinds of types.
const (
	kindInt       = 1
	kindPointer   = 2
	kindArray     = 3
	kindStruct    = 4
	kindUnion     = 5
	kindEnum      = 6
	kindForward   = 7
	kindTypedef   = 8
	kindVolatile  = 9
	kindConst     = 10
	kindRestrict  = 11
	kindFunc      = 12
	kindFuncProto = 13
	kindVar       = 14
	kindDatasec   = 15
	kindFloat     = 16
	kindDeclTag   = 17
	kindTypeTag   = 18
	kindEnum64    = 19
)

// kind describes a kind of types.
type kind struct {
	known bool
	root  bool // can be a wanted type

	// The sizes of the data after struct btf_type: once, and for each member, enumerator,
	// parameter or variable.
	once, each uint8
}

// kinds has an entry for each number that fits into btf_type.info.
var kinds = [32]kind{
	kindInt:       {known: true, once: 4},
	kindPointer:   {known: true},
	kindArray:     {known: true, once: 12},
	kindStruct:    {known: true, root: true, each: 12},
	kindUnion:     {known: true, root: true, each: 12},
	kindEnum:      {known: true, root: true, each: 8},
	kindForward:   {known: true},
	kindTypedef:   {known: true, root: true},
	kindVolatile:  {known: true},
	kindConst:     {known: true},
	kindRestrict:  {known: true},
	kindFunc:      {known: true},
	kindFuncProto: {known: true, each: 8},
	kindVar:       {known: true, once: 4},
	kindDatasec:   {known: true, each: 12},
	kindFloat:     {known: true},
	kindDeclTag:   {known: true, once: 4},
	kindTypeTag:   {known: true},
	kindEnum64:    {known: true, root: true, each: 12},
}

// info is btf_type.info: the kind and the number of members.
type info uint32

// infoUnused are the bits without a meaning.
const infoUnused = 0x60ff0000

// infoFlag says, of structures and unions, that the upper 8 bits of each offset are the size of a
// bit field.
const infoFlag = 1 << 31

// infoCount are the bits of the number of members, enumerators, parameters or variables.
const infoCount = 0xffff

func (i info) kind() uint { return uint(i>>24) & 31 }
func (i info) count() int { return int(i & infoCount) }

var (
	errCut  = errors.New("BTF is damaged: a part of it is missing")
	errName = errors.New("BTF is damaged: a name is outside of its strings, or has no end")
)

// raw is a kernel's BTF.
type raw struct {
	types   []byte
	strings []byte
	index   []uint32
	last    uint32 // id
}

// indexStep is the distance of types in the index. Few types are looked up by id, so walking to
// them costs less than a complete index.
const indexStep = 64

func parse(b []byte) (*raw, error) {
	if len(b) < headerSize {
		return nil, errCut
	}
	if binary.LittleEndian.Uint16(b) != magic {
		return nil, errors.New("not BTF in this machine's byte order")
	}
	if b[2] != 1 || b[3] != 0 {
		return nil, fmt.Errorf("unknown BTF version %d, flags %#x", b[2], b[3])
	}
	header := uint64(u32(b, 4))
	if header < headerSize || header > uint64(len(b)) {
		return nil, errCut
	}
	types, err := part(b[header:], u32(b, 8), u32(b, 12))
	if err != nil {
		return nil, err
	}
	strings, err := part(b[header:], u32(b, 16), u32(b, 20))
	if err != nil {
		return nil, err
	}
	return &raw{types: types, strings: strings}, nil
}

func part(b []byte, offset, size uint32) ([]byte, error) {
	if uint64(offset)+uint64(size) > uint64(len(b)) {
		return nil, errCut
	}
	return b[offset:][:size:size], nil
}

func u32(b []byte, at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }

// maxName is longer than any name in the kernel (KSYM_NAME_LEN).
const maxName = 4096

// name returns the string at an offset.
func (r *raw) name(at uint32) ([]byte, error) {
	if uint64(at) >= uint64(len(r.strings)) {
		return nil, errName
	}
	s := r.strings[at:]
	end := bytes.IndexByte(s[:min(len(s), maxName)], 0)
	if end < 0 {
		return nil, errName
	}
	return s[:end], nil
}

// root is a wanted type.
type root struct {
	id   uint32
	name string
}

// scan creates the index and returns the types with wanted names. It takes nearly all of the time
// of Make.
func (r *raw) scan(wanted map[string]set) (found []root, err error) {
	r.index = make([]uint32, 0, len(r.types)/(16*indexStep))
	id := uint32(0)
	for t := r.types; len(t) > 0; id++ {
		if id%indexStep == 0 {
			r.index = append(r.index, uint32(len(r.types)-len(t)))
		}
		if len(t) < typeSize {
			return nil, errCut
		}
		nameAndInfo := binary.LittleEndian.Uint64(t)
		name, i := uint32(nameAndInfo), info(nameAndInfo>>32)
		n := size(i)
		if n > len(t) {
			return nil, errCut
		}
		t = t[n:]
		switch kind := &kinds[i.kind()]; {
		case !kind.known || i&infoUnused != 0:
			return nil, fmt.Errorf("BTF has an unknown type: %#x", uint32(i))
		case kind.root && name != 0:
			s, err := r.name(name)
			if err != nil {
				return nil, err
			}
			if wanted[string(s)] != nil {
				found = append(found, root{id + 1, string(s)})
			}
		}
	}
	r.last = id
	return found, nil
}

// size returns the size of a type with the data of its kind.
func size(i info) int {
	kind := &kinds[i.kind()]
	return typeSize + int(kind.once) + int(kind.each)*i.count()
}

// at returns a type by its id. It is called after scan.
func (r *raw) at(id uint32) ([]byte, error) {
	if id == 0 || id > r.last {
		return nil, fmt.Errorf("BTF is damaged: type %d is missing", id)
	}
	at := int(r.index[(id-1)/indexStep])
	for range (id - 1) % indexStep {
		at += size(info(u32(r.types, at+4)))
	}
	return r.types[at:][:size(info(u32(r.types, at+4)))], nil
}
