package dwarfbtf

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// ErrNone means that a file has no debug information.
var ErrNone = errors.New("no debug information (DWARF) in it")

// Make returns raw BTF with the types that the given members begin with (TYPE.MEMBER[.MEMBER...],
// ENUM.VALUE or TYPE), and what these contain. Types keep their sizes. A member or enumerator is
// there if one that is given has its name, and pointers point to void. Types of one name that
// differ are all there.
func Make(f *elf.File, members []string) ([]byte, error) {
	if f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil {
		return nil, ErrNone
	}
	data, err := f.DWARF()
	if err != nil {
		return nil, fmt.Errorf("read debug information: %w", err)
	}
	c := &converter{
		info: data.Reader(), data: data,
		roots: make(map[string]bool), names: make(map[string]bool),
		known: make(map[string]btf.Type),
	}
	for _, m := range members {
		root, path, _ := strings.Cut(m, ".")
		c.roots[root] = true
		for name := range strings.SplitSeq(path, ".") {
			c.names[name] = name != ""
		}
	}
	if err := c.units(); err != nil {
		return nil, fmt.Errorf("read debug information: %w", err)
	}
	if len(c.found) == 0 {
		return nil, errors.New("debug information has none of the types that are wanted")
	}
	b, err := btf.NewBuilder(c.found, nil)
	if err != nil {
		return nil, err
	}
	return b.Marshal(nil, nil)
}

// converter converts types.
type converter struct {
	data  *dwarf.Data
	info  *dwarf.Reader // of the types that others refer to
	roots map[string]bool
	names map[string]bool     // of members and enumerators
	found []btf.Type          // roots, each once
	known map[string]btf.Type // all types, by their content
	left  int                 // types that the present root may still contain
}

// units converts the wanted types of all files of the source.
func (c *converter) units() error {
	for r := c.data.Reader(); ; {
		unit, err := r.Next()
		if err != nil || unit == nil {
			return err
		}
		if unit.Tag != dwarf.TagCompileUnit && unit.Tag != dwarf.TagPartialUnit || !unit.Children {
			r.SkipChildren()
			continue
		}
		for {
			e, err := r.Next()
			if err != nil {
				return err
			}
			if e == nil || e.Tag == 0 {
				break
			}
			if err := c.root(e); err != nil {
				return err
			}
			r.SkipChildren()
		}
	}
}

// root converts a type if it is wanted.
func (c *converter) root(e *dwarf.Entry) error {
	switch e.Tag {
	case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagEnumerationType, dwarf.TagTypedef:
	default:
		return nil
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	if !c.roots[name] || declared(e) {
		return nil
	}
	c.left = maxTypes
	t, err := c.convert(e, 0)
	if err != nil {
		return fmt.Errorf("type %s: %w", name, err)
	}
	if e.Tag == dwarf.TagTypedef {
		t = c.once(&btf.Typedef{Name: name, Type: t})
	}
	if slices.Contains(c.found, t) {
		return nil
	}
	if len(c.found) == maxFound || len(c.known) > maxKnown {
		return errors.New("too many types of the wanted names")
	}
	c.found = append(c.found, t)
	return nil
}

// Limits far above the wanted types and what differs among those of one name.
const (
	maxFound = 1_000
	maxKnown = 100_000
)

func declared(e *dwarf.Entry) bool {
	is, _ := e.Val(dwarf.AttrDeclaration).(bool)
	return is
}

// once returns the type that was converted before and is the same, else t. The types within t have
// been through it, so that the same ones are one.
func (c *converter) once(t btf.Type) btf.Type {
	key := content(t)
	if same := c.known[key]; same != nil {
		return same
	}
	c.known[key] = t
	return t
}

// content returns a text that two types share only if they are the same.
func content(t btf.Type) string {
	var b strings.Builder
	members := func(kind, name string, size uint32, all []btf.Member) {
		fmt.Fprintf(&b, "%s %s %d", kind, name, size)
		for _, m := range all {
			fmt.Fprintf(&b, " %s %d %d %p", m.Name, m.Offset, m.BitfieldSize, m.Type)
		}
	}
	switch t := t.(type) {
	case *btf.Typedef:
		fmt.Fprintf(&b, "typedef %s %p", t.Name, t.Type)
	case *btf.Struct:
		members("struct", t.Name, t.Size, t.Members)
	case *btf.Union:
		members("union", t.Name, t.Size, t.Members)
	case *btf.Array:
		fmt.Fprintf(&b, "array %d %p", t.Nelems, t.Type)
	case *btf.Enum:
		fmt.Fprintf(&b, "enum %s %d %v %v", t.Name, t.Size, t.Signed, t.Values)
	case *btf.Int:
		fmt.Fprintf(&b, "int %s %d %v", t.Name, t.Size, t.Encoding)
	default: // void, the pointer, float
		fmt.Fprintf(&b, "%T %s", t, t.TypeName())
	}
	return b.String()
}
