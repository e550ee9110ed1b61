package btfhub

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// Step is one member on the way to another, those of anonymous structs and
// unions included.
type Step struct {
	In    btf.Type // *btf.Struct or *btf.Union
	Index int      // of the member in it
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

// Walk goes from a type through members by their names. Anonymous structs and
// unions are descended into, typedefs and qualifiers are looked through, and so
// are arrays, as whose first element goes on. Pointers end the way.
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

// maxArrays is deeper than any array of arrays in the kernel's types.
const maxArrays = 8

// composite strips a type of names, qualifiers and arrays.
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

// find returns the way to a named member in t, last step first, and the types
// that were looked at. None is looked at twice: what is not in it the first time
// is not the second time, and hostile types may hold each other in circles.
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

// maxAnonymous bounds the anonymous types searched for one member; struct page
// and task_struct have a few dozen.
const maxAnonymous = 512
