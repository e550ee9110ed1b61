package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// Reduce returns raw BTF with only the given members of a kernel's types. Members keep their
// offsets and types their sizes; pointers point to void. Members that the kernel does not have are
// left out. The same types and members give the same bytes.
func Reduce(kernel *btf.Spec, members []string) ([]byte, error) {
	r := &reducer{
		keep: make(map[btf.Type]map[int]bool),
		made: make(map[btf.Type]btf.Type),
	}
	var roots []btf.Type
	for _, m := range members {
		name, rest, _ := strings.Cut(m, ".")
		types, err := namedTypes(kernel, name)
		if err != nil {
			return nil, err
		}
		for _, t := range types {
			if r.mark(t, rest) && !slices.Contains(roots, t) {
				roots = append(roots, t)
			}
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("reduce types: none of those that quark reads is there")
	}
	for i, t := range roots {
		var err error
		if roots[i], err = r.root(t); err != nil {
			return nil, err
		}
	}
	b, err := btf.NewBuilder(roots, &btf.BuilderOptions{Deduplicate: true})
	if err != nil {
		return nil, fmt.Errorf("reduce types: %w", err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reduce types: %w", err)
	}
	return raw, nil
}

// namedTypes returns the structs, unions, enums and typedefs with a name, ordered by id.
func namedTypes(kernel *btf.Spec, name string) ([]btf.Type, error) {
	all, err := kernel.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up type %s: %w", name, err)
	}
	type numbered struct {
		id btf.TypeID
		t  btf.Type
	}
	var found []numbered
	for _, t := range all {
		if t.TypeName() != name {
			continue // a flavour of a type: NAME___SUFFIX
		}
		switch t.(type) {
		case *btf.Struct, *btf.Union, *btf.Enum, *btf.Typedef:
			id, err := kernel.TypeID(t)
			if err != nil {
				return nil, fmt.Errorf("look up type %s: %w", name, err)
			}
			found = append(found, numbered{id, t})
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return int(a.id) - int(b.id) })
	types := make([]btf.Type, len(found))
	for i, f := range found {
		types[i] = f.t
	}
	return types, nil
}

type reducer struct {
	keep map[btf.Type]map[int]bool // indices of members and enumerators
	made map[btf.Type]btf.Type
	void *btf.Pointer

	depth int // of types in types
}

// maxDepth is more than the depth of types in types in a kernel. Only forged types contain
// themselves.
const maxDepth = 64

// mark marks the members of t on the way to rest, and reports whether t is wanted. If only the
// first members exist, these are marked: programs relocate against members that some kernels do not
// have, and use the outer one there.
func (r *reducer) mark(t btf.Type, rest string) bool {
	if rest == "" {
		return true
	}
	if enum, ok := btf.UnderlyingType(t).(*btf.Enum); ok {
		for i, v := range enum.Values {
			if v.Name == rest {
				r.note(enum, i)
				return true
			}
		}
		return false
	}
	for names := strings.Split(rest, "."); len(names) > 0; names = names[:len(names)-1] {
		if steps, err := btfhub.Walk(t, names); err == nil {
			for _, s := range steps {
				r.note(s.In, s.Index)
			}
			return true
		}
	}
	return btfhub.Members(btf.UnderlyingType(t)) != nil
}

func (r *reducer) note(t btf.Type, i int) {
	if r.keep[t] == nil {
		r.keep[t] = make(map[int]bool)
	}
	r.keep[t][i] = true
}

// root reduces a type that is looked up by name. A typedef keeps its name.
func (r *reducer) root(t btf.Type) (btf.Type, error) {
	inner, err := r.reduce(t)
	if err != nil {
		return nil, err
	}
	if def, ok := t.(*btf.Typedef); ok {
		return &btf.Typedef{Name: def.Name, Type: inner}, nil
	}
	return inner, nil
}

func (r *reducer) reduce(t btf.Type) (btf.Type, error) {
	t = btf.UnderlyingType(t)
	if made, ok := r.made[t]; ok {
		return made, nil
	}
	if r.depth == maxDepth {
		return nil, errors.New("reduce types: a type holds itself")
	}
	r.depth++
	defer func() { r.depth-- }()
	made, err := r.reduceNew(t)
	if err == nil {
		r.made[t] = made
	}
	return made, err
}

func (r *reducer) reduceNew(t btf.Type) (btf.Type, error) {
	switch t := t.(type) {
	case *btf.Pointer:
		if r.void == nil {
			r.void = &btf.Pointer{Target: (*btf.Void)(nil)}
		}
		return r.void, nil
	case *btf.Int:
		return t, nil
	case *btf.Float:
		return t, nil
	case *btf.Enum:
		enum := &btf.Enum{Name: t.Name, Size: t.Size, Signed: t.Signed}
		for i, v := range t.Values {
			if r.keep[t][i] {
				enum.Values = append(enum.Values, v)
			}
		}
		return enum, nil
	case *btf.Array:
		element, err := r.reduce(t.Type)
		if err != nil {
			return nil, err
		}
		index, err := r.reduce(t.Index)
		if err != nil {
			return nil, err
		}
		return &btf.Array{Index: index, Type: element, Nelems: t.Nelems}, nil
	case *btf.Struct:
		members, err := r.members(t)
		return &btf.Struct{Name: t.Name, Size: t.Size, Members: members}, err
	case *btf.Union:
		members, err := r.members(t)
		return &btf.Union{Name: t.Name, Size: t.Size, Members: members}, err
	}
	return nil, fmt.Errorf("reduce types: a member is a %T", t)
}

func (r *reducer) members(t btf.Type) ([]btf.Member, error) {
	var kept []btf.Member
	for i, m := range btfhub.Members(t) {
		if !r.keep[t][i] {
			continue
		}
		reduced, err := r.reduce(m.Type)
		if err != nil {
			return nil, err
		}
		m.Type = reduced
		kept = append(kept, m)
	}
	return kept, nil
}
