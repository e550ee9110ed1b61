package dwarfbtf

import (
	"debug/dwarf"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

var pointer = &btf.Pointer{Target: (*btf.Void)(nil)}

// Limits for forged files, above what any kernel has.
const (
	maxDepth   = 64
	maxTypes   = 1 << 14 // in one that is wanted
	maxMembers = 1 << 16
	maxSize    = 1 << 30
)

// at converts the type that an entry refers to.
func (c *converter) at(e *dwarf.Entry, depth int) (btf.Type, error) {
	if e.Val(dwarf.AttrType) == nil {
		return (*btf.Void)(nil), nil
	}
	off, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return nil, errors.New("a type is in another file or unit, as dwz puts it there")
	}
	c.info.Seek(off)
	t, err := c.info.Next()
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, errors.New("a type is missing")
	}
	return c.convert(t, depth+1)
}

// convert converts a type. Typedefs and qualifiers are left out. After it the reader is elsewhere.
func (c *converter) convert(e *dwarf.Entry, depth int) (btf.Type, error) {
	t, err := c.convertNew(e, depth)
	if err != nil {
		return nil, err
	}
	return c.once(t), nil
}

func (c *converter) convertNew(e *dwarf.Entry, depth int) (btf.Type, error) {
	if c.left--; depth > maxDepth || c.left < 0 {
		return nil, errors.New("types are nested too deeply, or in themselves")
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	size, err := unsigned(e, dwarf.AttrByteSize, maxSize)
	if err != nil {
		return nil, err
	}
	switch e.Tag {
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagSubroutineType:
		return pointer, nil
	case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
		return c.at(e, depth)
	case dwarf.TagBaseType:
		return baseType(e, name, uint32(size))
	case dwarf.TagArrayType:
		return c.array(e, depth)
	case dwarf.TagEnumerationType:
		return c.enum(e, name, uint32(size))
	case dwarf.TagStructType, dwarf.TagUnionType:
		if declared(e) {
			return nil, fmt.Errorf("%s is in another one, and only declared", name)
		}
		members, err := c.members(e, depth)
		if e.Tag == dwarf.TagUnionType {
			return &btf.Union{Name: name, Size: uint32(size), Members: members}, err
		}
		return &btf.Struct{Name: name, Size: uint32(size), Members: members}, err
	}
	return nil, fmt.Errorf("a type of the kind %v is not known", e.Tag)
}

// baseType converts a number. It has the encoding that pahole gives it.
func baseType(e *dwarf.Entry, name string, size uint32) (btf.Type, error) {
	encoding, err := unsigned(e, dwarf.AttrEncoding, 0xff)
	const boolean, float, signed, signedChar = 2, 4, 5, 6 // DW_ATE_*
	switch encoding {
	case float:
		return &btf.Float{Name: name, Size: size}, err
	case boolean:
		return &btf.Int{Name: name, Size: size, Encoding: btf.Bool}, err
	case signed, signedChar:
		return &btf.Int{Name: name, Size: size, Encoding: btf.Signed}, err
	}
	return &btf.Int{Name: name, Size: size}, err
}

// children returns the entries below one of the given tag.
func (c *converter) children(e *dwarf.Entry, tag dwarf.Tag) (all []*dwarf.Entry, err error) {
	if !e.Children {
		return nil, nil
	}
	c.info.Seek(e.Offset)
	if _, err := c.info.Next(); err != nil {
		return nil, err
	}
	for {
		child, err := c.info.Next()
		if err != nil {
			return nil, err
		}
		if child == nil || child.Tag == 0 {
			return all, nil
		}
		if len(all) == maxMembers {
			return nil, errors.New("a type has too many members")
		}
		if child.Tag == tag {
			all = append(all, child)
		}
		c.info.SkipChildren()
	}
}

// members converts the members that are wanted, and those without a name, which may contain one.
func (c *converter) members(e *dwarf.Entry, depth int) (all []btf.Member, err error) {
	entries, err := c.children(e, dwarf.TagMember)
	if err != nil {
		return nil, err
	}
	for _, m := range entries {
		name, _ := m.Val(dwarf.AttrName).(string)
		if name != "" && !c.names[name] {
			continue
		}
		offset, bits, err := place(m)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		t, err := c.at(m, depth)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", name, err)
		}
		all = append(all, btf.Member{Name: name, Type: t, Offset: btf.Bits(offset), BitfieldSize: btf.Bits(bits)})
	}
	return all, nil
}

// place returns the offset of a member, in bits, and the size of one that is a bit field.
func place(m *dwarf.Entry) (offset, bits int64, err error) {
	at, err := location(m)
	if err != nil {
		return 0, 0, err
	}
	if bits, err = unsigned(m, dwarf.AttrBitSize, 64); err != nil {
		return 0, 0, err
	}
	offset = at * 8
	if bits == 0 {
		return offset, 0, nil
	}
	if m.Val(dwarf.AttrDataBitOffset) != nil {
		offset, err = unsigned(m, dwarf.AttrDataBitOffset, maxSize)
		return offset, bits, err
	}
	// Until DWARF 3 the bits count from the high end of a word whose size is in the member.
	skipped, err := unsigned(m, dwarf.AttrBitOffset, 64)
	if err != nil {
		return 0, 0, err
	}
	size, err := unsigned(m, dwarf.AttrByteSize, 8)
	if err != nil {
		return 0, 0, err
	}
	if size*8 < skipped+bits {
		return 0, 0, errors.New("a bit field is not in its word")
	}
	return offset + size*8 - skipped - bits, bits, nil
}

// location returns the offset of a member in bytes.
func location(m *dwarf.Entry) (int64, error) {
	expression, ok := m.Val(dwarf.AttrDataMemberLoc).([]byte)
	if !ok {
		return unsigned(m, dwarf.AttrDataMemberLoc, maxSize) // 0 in a union
	}
	const plusUconst = 0x23 // of DWARF 2
	if len(expression) < 2 || expression[0] != plusUconst {
		return 0, errors.New("its place is an expression")
	}
	var at int64
	for i, b := range expression[1:] {
		at |= int64(b&0x7f) << (7 * i)
		if i == 4 || b&0x80 == 0 {
			break
		}
	}
	if at > maxSize {
		return 0, errors.New("its place is absurd")
	}
	return at, nil
}

// array converts an array, of each dimension.
func (c *converter) array(e *dwarf.Entry, depth int) (btf.Type, error) {
	dimensions, err := c.children(e, dwarf.TagSubrangeType)
	if err != nil {
		return nil, err
	}
	t, err := c.at(e, depth)
	if err != nil {
		return nil, err
	}
	for i := len(dimensions) - 1; i >= 0; i-- {
		n, err := unsigned(dimensions[i], dwarf.AttrCount, maxSize)
		if last := dimensions[i].Val(dwarf.AttrUpperBound); err == nil && n == 0 && last != nil {
			// That of an array without elements is -1.
			if v, ok := last.(int64); ok && v >= 0 && v < maxSize {
				n = v + 1
			}
		}
		if err != nil {
			return nil, err
		}
		t = c.once(&btf.Array{Index: c.once(&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}), Type: t, Nelems: uint32(n)})
	}
	return t, nil
}

// enum converts the enumerators that are wanted.
func (c *converter) enum(e *dwarf.Entry, name string, size uint32) (btf.Type, error) {
	if size == 0 || size > 8 {
		return nil, fmt.Errorf("an enumeration has %d bytes", size)
	}
	entries, err := c.children(e, dwarf.TagEnumerator)
	if err != nil {
		return nil, err
	}
	t := &btf.Enum{Name: name, Size: size}
	for _, v := range entries {
		value, ok := v.Val(dwarf.AttrConstValue).(int64)
		name, _ := v.Val(dwarf.AttrName).(string)
		if !ok || !c.names[name] {
			continue
		}
		t.Signed = t.Signed || value < 0
		t.Values = append(t.Values, btf.EnumValue{Name: name, Value: uint64(value)})
	}
	return t, nil
}

// unsigned returns a number of an entry, 0 if it has none.
func unsigned(e *dwarf.Entry, attribute dwarf.Attr, most int64) (int64, error) {
	v, ok := e.Val(attribute).(int64)
	if ok && (v < 0 || v > most) {
		return 0, fmt.Errorf("%v is %d", attribute, v)
	}
	return v, nil
}
