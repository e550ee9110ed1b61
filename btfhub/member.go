package btfhub

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// findMember follows a path of member names from a type. It returns the last member, and its offset
// from the start of the type in bits. It searches anonymous structs and unions, and the first
// element of arrays, but does not follow pointers.
func findMember(t btf.Type, names []string) (m btf.Member, bits uint64, ok bool) {
	for _, name := range names {
		s := search{name: name}
		if name == "" || !s.find(composite(t), bits) {
			return btf.Member{}, 0, false
		}
		m, bits, ok = s.member, s.bits, true
		t = m.Type
	}
	return m, bits, ok
}

// HasMember reports whether a type has the member in TYPE.MEMBER. If several structs have this
// name, one of them must have the member.
func HasMember(types *btf.Spec, path string) bool {
	name, member, _ := strings.Cut(path, ".")
	all, _ := types.AnyTypesByName(name) // an error means that no type has the name
	return slices.ContainsFunc(all, func(t btf.Type) bool {
		_, _, ok := findMember(t, strings.Split(member, "."))
		return ok
	})
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

// search looks for a member in a type and the anonymous types within. It searches no type twice,
// because forged types may contain each other.
type search struct {
	name   string
	seen   []btf.Type
	member btf.Member
	bits   uint64
}

// maxAnonymous limits the anonymous types that are searched for one member. struct page and
// task_struct have a few dozen.
const maxAnonymous = 512

// find searches a type that starts at an offset in bits, and reports whether it has the member.
func (s *search) find(t btf.Type, at uint64) bool {
	if len(s.seen) >= maxAnonymous || slices.Contains(s.seen, t) {
		return false
	}
	s.seen = append(s.seen, t)
	members := Members(t)
	for _, m := range members {
		if m.Name == s.name {
			s.member, s.bits = m, at+uint64(m.Offset)
			return true
		}
	}
	return slices.ContainsFunc(members, func(m btf.Member) bool {
		return m.Name == "" && s.find(btf.UnderlyingType(m.Type), at+uint64(m.Offset))
	})
}
