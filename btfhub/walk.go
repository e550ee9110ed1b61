package btfhub

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// Step is a member on the way to another one. Members without a name, which hold anonymous structs
// and unions, are steps as well.
type Step struct {
	In    btf.Type // *btf.Struct or *btf.Union
	Index int      // of the member in In
}

// Member returns the step's member.
func (s Step) Member() btf.Member { return Members(s.In)[s.Index] }

// Members returns the members of a struct or union, nil for other types.
func Members(t btf.Type) []btf.Member {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

var errNoMember = errors.New("no such member")

// Walk follows members by name, beginning at a type. It looks into anonymous structs and unions,
// through typedefs and qualifiers, and into the first element of arrays. It does not follow
// pointers.
func Walk(t btf.Type, names []string) ([]Step, error) {
	var steps []Step
	for _, name := range names {
		way, _ := find(composite(t), name, nil)
		if way == nil || name == "" {
			return nil, errNoMember
		}
		slices.Reverse(way)
		steps = append(steps, way...)
		t = way[len(way)-1].Member().Type
	}
	if len(steps) == 0 {
		return nil, errNoMember
	}
	return steps, nil
}

// maxArrays is more than the dimensions of any array in the kernel's types.
const maxArrays = 8

// composite strips typedefs, qualifiers and arrays.
func composite(t btf.Type) btf.Type {
	for range maxArrays {
		t = btf.UnderlyingType(t)
		a, ok := t.(*btf.Array)
		if !ok {
			break
		}
		t = a.Type
	}
	return t
}

// find returns the steps to a named member of t, the last step first, and the types that it has
// searched. It searches no type twice, because forged types may contain each other.
func find(t btf.Type, name string, seen []btf.Type) ([]Step, []btf.Type) {
	if len(seen) >= maxAnonymous || slices.Contains(seen, t) {
		return nil, seen
	}
	seen = append(seen, t)
	members := Members(t)
	for i, m := range members {
		if m.Name == name {
			return []Step{{t, i}}, seen
		}
	}
	for i, m := range members {
		if m.Name != "" {
			continue
		}
		var way []Step
		if way, seen = find(btf.UnderlyingType(m.Type), name, seen); way != nil {
			return append(way, Step{t, i}), seen
		}
	}
	return nil, seen
}

// maxAnonymous limits the anonymous types that are searched for one member. struct page and
// task_struct have a few dozen.
const maxAnonymous = 512
