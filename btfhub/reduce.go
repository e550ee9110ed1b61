package btfhub

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Reduce returns raw BTF with the types that the given members begin with (TYPE.MEMBER[.MEMBER...],
// ENUM.VALUE or TYPE), and the types that these types contain. Types keep their sizes, and members
// keep their offsets. Other members are omitted, unless a given member has their name in second or
// later place. All pointers point to void. Typedefs and qualifiers within types are omitted.
// Flavours (NAME___FLAVOUR) are types of programs, and do not count as NAME.
//
// Wanted types are ordered by name, so that kernels with the same types have the same bytes. A
// reduction of the result gives the same bytes, too.
func Reduce(spec *btf.Spec, members []string) ([]byte, error) {
	r := &reducer{inner: make(set), roots: make(map[btf.Type]set), copies: make(map[original]btf.Type)}
	wanted := make(map[string]set) // first members by type
	for _, m := range members {
		name, rest, _ := strings.Cut(m, ".")
		if wanted[name] == nil {
			wanted[name] = make(set)
		}
		first, rest, nested := strings.Cut(rest, ".")
		wanted[name][first] = true
		for nested {
			first, rest, nested = strings.Cut(rest, ".")
			r.inner[first] = true
		}
	}
	ids := make(map[btf.Type]btf.TypeID)
	var roots []btf.Type
	for name, first := range wanted {
		all, err := spec.AnyTypesByName(name)
		if err != nil && !errors.Is(err, btf.ErrNotFound) {
			return nil, err
		}
		for _, t := range all {
			switch t.(type) {
			case *btf.Struct, *btf.Union, *btf.Enum, *btf.Typedef:
				if t.TypeName() != name { // a flavour
					continue
				}
				if ids[t], err = spec.TypeID(t); err != nil {
					return nil, err
				}
				r.roots[t] = first
				roots = append(roots, t)
			}
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("BTF has none of the wanted types")
	}
	slices.SortFunc(roots, func(a, b btf.Type) int {
		return cmp.Or(cmp.Compare(a.TypeName(), b.TypeName()), cmp.Compare(ids[a], ids[b]))
	})
	var b btf.Builder
	for _, t := range roots {
		if _, err := b.Add(r.copy(t, nil)); err != nil {
			return nil, err
		}
	}
	return b.Marshal(nil, nil)
}

type set map[string]bool

// reducer copies types and omits unwanted members.
type reducer struct {
	roots  map[btf.Type]set // for each wanted type, the members to keep
	inner  set              // members to keep in every type
	copies map[original]btf.Type
}

// original is the key of a copy: a type and, for an anonymous type, the wanted type that contains
// it.
type original struct{ t, around btf.Type }

var toVoid = &btf.Pointer{Target: (*btf.Void)(nil)}

// copy returns the reduced form of a type inside another type, or nil for void.
func (r *reducer) copy(t, around btf.Type) btf.Type {
	if r.roots[t] == nil {
		t = btf.UnderlyingType(t)
	}
	switch {
	case r.roots[t] != nil:
		around = t
	case t.TypeName() != "":
		around = nil
	}
	from := original{t, around}
	if c := r.copies[from]; c != nil {
		return c
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return toVoid
	case *btf.Typedef: // a wanted type
		c := &btf.Typedef{Name: t.Name}
		r.copies[from] = c
		c.Type = r.copy(t.Type, nil)
		return c
	case *btf.Array:
		c := &btf.Array{Nelems: t.Nelems}
		r.copies[from] = c
		c.Index, c.Type = r.copy(t.Index, nil), r.copy(t.Type, around)
		return c
	case *btf.Struct:
		c := &btf.Struct{Name: t.Name, Size: t.Size}
		r.copies[from] = c
		c.Members = r.members(t.Members, around)
		return c
	case *btf.Union:
		c := &btf.Union{Name: t.Name, Size: t.Size}
		r.copies[from] = c
		c.Members = r.members(t.Members, around)
		return c
	case *btf.Enum:
		c := &btf.Enum{Name: t.Name, Size: t.Size, Signed: t.Signed}
		for _, v := range t.Values {
			if r.keeps(v.Name, around) {
				c.Values = append(c.Values, v)
			}
		}
		r.copies[from] = c
		return c
	}
	return t
}

// members returns the members to keep. Anonymous members are kept if they contain such members.
func (r *reducer) members(all []btf.Member, around btf.Type) (kept []btf.Member) {
	for _, m := range all {
		if m.Name == "" || r.keeps(m.Name, around) {
			m.Type, m.Tags = r.copy(m.Type, around), nil
			kept = append(kept, m)
		}
	}
	return kept
}

func (r *reducer) keeps(name string, around btf.Type) bool {
	return r.inner[name] || around != nil && r.roots[around][name]
}
